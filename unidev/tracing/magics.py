"""``%%trace_transfers``, for IPython and notebooks: ``%load_ext unidev`` adds it."""

from __future__ import annotations

import ast
from itertools import takewhile
from keyword import iskeyword
from typing import TYPE_CHECKING

from unidev.system.wording import shown
from unidev.tracing.call_site import running_cell
from unidev.tracing.trace_transfers import trace_transfers

if TYPE_CHECKING:
    from typing import Any


def add_magics(shell: Any) -> None:
    """Add them to ``shell``, an ``IPython.InteractiveShell``."""

    def magic(line: str, cell: str) -> object:
        """Run the cell, and show what it moved between devices, from which line.

            %%trace_transfers trace
            loss = step(net, batch)

        Assigns the ``unidev`` trace to the variable that is named, if any. If the cell fails, the
        transfers up to then are shown, too. The cell cannot contain a top-level ``await``.
        """
        from IPython.display import display

        name = _checked_name(line)
        with trace_transfers() as trace:
            if name:
                shell.user_ns[name] = trace
            try:
                result = _run(shell, cell)
            finally:
                display(trace)  # type: ignore[no-untyped-call, unused-ignore]  # IPython 9
        return result

    shell.register_magic_function(magic, "cell", "trace_transfers")


def _checked_name(line: str) -> str:
    from IPython.core.error import UsageError

    name = line.strip()
    if name and (not name.isidentifier() or iskeyword(name)):
        raise UsageError(
            "%%trace_transfers takes nothing, or the name of a variable for the trace: "
            f"`%%trace_transfers trace`; not {shown(name)}."
        )
    return name


def _run(shell: Any, cell: str) -> object:
    """Run ``cell`` in the user's namespace; the value of its last line, if it is an expression.

    Not by ``shell.run_cell``, which would print an error and then go on.
    """
    empty = sum(1 for _ in takewhile(lambda text: not text.strip(), cell.splitlines()))
    # Lines are counted as the user sees them: the magic's own is the first, and IPython removes
    # those that are empty.
    source = "\n" * (1 + empty) + shell.transform_cell(cell)
    # Not `shell.execution_count`, which is already the next cell's in some versions of IPython.
    file = shell.compile.cache(source, running_cell() or shell.execution_count)
    tree = shell.transform_ast(shell.compile.ast_parse(source, file))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(shell.compile(tree, file, "exec"), shell.user_ns)  # noqa: S102  the user's own cell
    if last is None:
        return None
    code = shell.compile(ast.Expression(last.value), file, "eval")
    return eval(code, shell.user_ns)  # noqa: S307  the same
