"""A trace as a table, and the advice in it."""

import unidev


def test_the_most_expensive_line_comes_first_with_what_to_do(two_gpus):
    x = unidev.ones(1000, device="gpu:0")
    with unidev.trace_transfers() as trace:
        unidev.to_numpy(x)
        total = 0.0
        for each in x:
            total += each.item()
    first, second = trace.by_line()
    assert (first.count, first.nbytes) == (1000, 4000)
    assert (second.count, second.nbytes) == (1, 4000)
    assert first.advice == (
        "`.item()` in a loop, 1,000 times: keep the sum on gpu:0 and read it once."
    )
    assert second.advice == ""
    text = str(trace).splitlines()
    assert text[0].startswith("1,001 transfers between devices, 7.8 KiB, ")
    assert text[0].endswith(" s, from 2 lines")
    assert text[1] == "the seconds are of simulated devices: no speed of any GPU"
    assert text[3].split() == ["transfers", "bytes", "time", "between", "by", "line"]
    assert text[4].split()[:3] == ["1,000", "3.9", "KiB"]
    assert text[5:7] == [f"    {first.line.source}", f"    {first.advice}"]
    assert "  unidev: other threads" in text


def advice_of(call, times=10):
    with unidev.trace_transfers() as trace:
        for _ in range(times):
            call()
    (total,) = trace.by_line()
    return total.advice


def test_advice_is_about_what_was_done(two_gpus):
    x, y = unidev.ones((2, 2), device="gpu:0"), unidev.ones((2, 2))
    assert "decide there" in advice_of(lambda: bool((x == 1).all()))
    assert "print less often" in advice_of(lambda: str(x))
    assert "keep the results on gpu:0" in advice_of(lambda: unidev.to_numpy(x))
    assert "send to gpu:1 once, before" in advice_of(lambda: unidev.copy_to(y, "gpu:1"))
    assert "compute where the data is" in advice_of(lambda: unidev.copy_to(x, "gpu:1"))
    assert advice_of(lambda: unidev.copy_to(x, "gpu:1"), times=9) == ""  # in no loop, and few
    assert "in a loop" not in advice_of(lambda: x[0, 0].item() + 1)  # it stands in none


LOOPS = """\
    import unidev
    x = unidev.ones(3, device="gpu:0")
    def read(): return x[0].item()
    with unidev.trace_transfers() as trace:
        while len(trace.transfers) < 2:
            x[0].item()
        [x[0].item() for _ in range(2)]
        for _ in range(2): read()
        for _ in x.tolist(): pass
        x[0].item(); x[0].item()
    for total in sorted(trace.by_line(), key=lambda each: each.line.number):
        print(total.line.number, "in a loop" in total.advice)
    """


def test_a_loop_is_where_the_line_stands_in_one(two_gpus, tmp_path, run_python):
    program = "\n".join(line.removeprefix("    ") for line in LOOPS.splitlines())
    (tmp_path / "loops.py").write_text(program)
    said = run_python("import loops", UNIDEV_SIMULATE="1", UNIDEV_BACKEND="numpy")
    assert said.splitlines() == ["3 False", "6 True", "7 True", "9 False", "10 False"]
