"""A function that tests of engines give to ``unidev.run``; importing it computes something."""

from __future__ import annotations

from typing import Any

import unidev

FIRST = unidev.ones(2)


def exchanged(_: Any = None) -> dict[str, Any]:
    """Each collective, by the engine of the framework."""
    group = unidev.group()
    rank = group.rank
    large = unidev.full((2, 1 << 20), 1.0 + rank)
    found = group.all_reduce(
        {"a": FIRST * (rank + 1), "b": unidev.array([rank, 2]), "empty": unidev.zeros((0, 2))}
    )
    half = group.all_reduce(unidev.full(2, 300.0 * (rank + 1), dtype="float16"), "mean")
    group.barrier()
    return {
        "sum": [unidev.to_numpy(found[name]).tolist() for name in ("a", "b", "empty")],
        "half": unidev.to_numpy(half).tolist(),
        "large": sorted(set(unidev.to_numpy(group.all_reduce(large)).ravel().tolist())),
        "broadcast": unidev.to_numpy(group.broadcast(unidev.full(2, float(rank)), 1)).tolist(),
        "gathered": [
            unidev.to_numpy(x).tolist() for x in group.all_gather(unidev.array([rank == 1]))
        ],
        "engines": [type(engine).__name__ for engine in group.exchange.engines._joined],
    }


def exchanged_both_ways(_: Any = None) -> tuple[dict[str, Any], list[tuple[int, ...]]]:
    """As ``exchanged``; and of a small and a large tensor, the shapes of those that it carries."""
    found, group = exchanged(), unidev.group()
    (engine,) = group.exchange.engines._joined
    start, carried = engine.start_all_reduce, []

    def noted(flat: Any, op: str) -> Any:
        carried.append(tuple(flat.shape))
        return start(flat, op)

    engine.start_all_reduce = noted  # type: ignore[method-assign]
    for shape in ((5,), (1 << 20,), (1 << 20, 2)):
        group.all_reduce(unidev.ones(shape))
    return found, carried


def exchanged_by(_: Any = None) -> dict[str, Any]:
    """As ``exchanged``, with all engines that this worker has, those of unidev too."""
    found, exchange = exchanged(), unidev.group().exchange
    engines = exchange.engines.of(unidev.active_backend())
    return {**found, "engines": [type(engine).__name__ for engine in engines]}


def drawn_by_mxnet() -> float:
    import mxnet

    return float(mxnet.np.random.uniform(size=(1,))[0])
