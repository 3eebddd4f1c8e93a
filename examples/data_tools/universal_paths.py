"""universal-pathlib has the methods of pathlib for files anywhere: `python universal_paths.py rdma://SERVER/DIRECTORY`."""

import sys

from upath import UPath


def main(top: str) -> None:
    folder = UPath(top) / "notes"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("first")
    (folder / "b.txt").write_text("second")
    print("names:", sorted(path.name for path in folder.iterdir()))
    print("text:", (folder / "a.txt").rename(folder / "c.txt").read_text())
    print("found:", [path.name for path in UPath(top).glob("**/c.*")])


if __name__ == "__main__":
    main(sys.argv[1])
