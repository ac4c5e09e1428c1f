"""Runs one function of a file: ``python -m ddpcheck.testing.called FILE FUNCTION``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

MARK_OF_PACKAGE = "__init__.py"


def main() -> None:
    """Import the file's module, and call the function."""
    file, name = Path(sys.argv[1]), sys.argv[2]
    is_in_package = (file.parent / MARK_OF_PACKAGE).exists()
    module = _of_package(file) if is_in_package else _of_its_own(file)
    getattr(module, name)()


def _of_package(file: Path) -> ModuleType:
    """Return the module by its name in its package, so that its relative imports work."""
    folder, parts = file.parent, [file.stem] * (file.name != MARK_OF_PACKAGE)
    while (folder / MARK_OF_PACKAGE).exists():
        folder, parts = folder.parent, [folder.name, *parts]
    sys.path.insert(0, str(folder))
    return importlib.import_module(".".join(parts))


def _of_its_own(file: Path) -> ModuleType:
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        sys.exit(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
