"""Lists modules over 400 lines and functions over 60, and fails on each without a reason in `REASONS`.

Run as `python tests/size_report.py [FOLDER]`; the folder is `src` unless named.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES = 400
FUNCTION_LINES = 60

# "tenure/module.py" or "tenure/module.py:Class.function" → why it is better long. A needless entry fails too.
REASONS: dict[str, str] = {
    "tenure/records.py": "a list of records whose fields are the columns of the tables; there is no logic to divide",
}


def sizes(path: Path, name: str) -> Iterator[tuple[str, int, int]]:
    """Yields (what, its lines, the most it should have) for a module and all functions in it."""
    text = path.read_text(encoding="utf-8")
    yield name, len(text.splitlines()), MODULE_LINES
    for qualified, node in functions(ast.parse(text), ""):
        yield f"{name}:{qualified}", (node.end_lineno or node.lineno) - node.lineno + 1, FUNCTION_LINES


def functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{prefix}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield inner.rstrip("."), child
        yield from functions(child, inner)


def report(root: Path, reasons: dict[str, str]) -> list[str]:
    """Prints everything that is too long and returns a complaint for each that has no reason."""
    complaints, used = [], set()
    for path in sorted(root.rglob("*.py")):
        for what, lines, most in sizes(path, path.relative_to(root).as_posix()):
            if lines <= most:
                continue
            used.add(what)
            reason = reasons.get(what)
            print(f"{lines:5} lines  {what}  {reason or 'NO REASON GIVEN'}")
            if not reason:
                complaints.append(
                    f"{what} has {lines} lines, more than {most}: divide it, or record why not in REASONS"
                )
    complaints += [f"{what} is in REASONS but is not too long" for what in sorted(set(reasons) - used)]
    return complaints


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).parent.parent / "src"
    complaints = report(root, REASONS)
    for complaint in complaints:
        print(f"error: {complaint}", file=sys.stderr)
    print(f"sizes: {len(complaints)} to answer for")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
