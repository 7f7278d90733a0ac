"""What the tests of this room share: platform files with blocks and policies of others."""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from bench import LIMIT, EndToEnd, main  # noqa: E402, F401


class Platforms(EndToEnd):
    def write_platform(self, name="p", base="trn1.2xlarge", **keys):
        """The path of a new platform file; a line for each key and row, so that errors can be
        held against the text."""
        path = self.directory / f"{name}.json"
        value = {"schema": "platform/1", "name": name, "base": base, **keys}
        path.write_text(json.dumps(value, indent=1), encoding="ascii")
        return path

    @staticmethod
    def line_of(path, text):
        lines = path.read_text().splitlines()
        found, = [number for number, line in enumerate(lines, 1) if text in line]
        return found

    def faulty(self, **changes):
        """A block of blocks.cpp, described as it is."""
        return {"name": "faulty", "library": str(self.build / "lib" / "libfaulty.so"),
                "type": "faulty", "windows": [{"socket": "registers", "size": 4096}],
                "initiators": [{"socket": "memory"}],
                "semaphores": [{"port": "done", "core": 0, "semaphore": 40}], **changes}

    def policy(self, name, **more):
        return {"library": str(self.build / "lib" / "libfaulty.so"), "type": name, **more}
