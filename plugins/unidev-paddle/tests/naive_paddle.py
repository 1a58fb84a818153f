"""What Paddle's own calls make of "copy"."""

from mutants.naive import NaiveBackend

import unidev_paddle

to = NaiveBackend("to", unidev_paddle, lambda x, device: x.to("cpu"))
cpu = NaiveBackend("cpu", unidev_paddle, lambda x, device: x.cpu())
detach = NaiveBackend("detach", unidev_paddle, lambda x, device: x.detach())
to_with_copy = NaiveBackend("to_with_copy", unidev_paddle, lambda x, device: x.to("cpu", copy=True))
clone = NaiveBackend("clone", unidev_paddle, lambda x, device: x.clone())
