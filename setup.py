"""What pyproject.toml cannot say: a wheel carries the worked answers and the checkpoints.

They lie beside the library in a clone, and inside it, in ``ehr_course/_course``, once it is
installed. ``ehr_course.course_files`` finds them in either place.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = {
    "solutions": sorted(Path("solutions").glob("[0-9]*.py")),
    "course/checkpoints": sorted(p for p in Path("course/checkpoints").rglob("*") if p.is_file()),
}


class BuildWithCourseFiles(build_py):
    """Copy the course's files into the library that is built, except for an editable install."""

    def run(self) -> None:
        """Build the library, then add the course's files."""
        super().run()
        if self.editable_mode:
            return
        shutil.rmtree(Path(self.build_lib, "ehr_course", "_course"), ignore_errors=True)
        for source, target in self._copies():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Name the files that are built, the course's files among them."""
        outputs = super().get_outputs(include_bytecode)
        if not self.editable_mode:
            outputs += [str(target) for _, target in self._copies()]
        return outputs

    def get_source_files(self) -> list[str]:
        """Name the files that a source distribution must hold so that a wheel can be built."""
        carried = [str(source) for sources in CARRIED.values() for source in sources]
        return [*super().get_source_files(), *carried]

    def _copies(self) -> list[tuple[Path, Path]]:
        inside = Path(self.build_lib, "ehr_course", "_course")
        return [
            (source, inside / Path(folder).name / source.relative_to(folder))
            for folder, sources in CARRIED.items()
            for source in sources
        ]


setup(cmdclass={"build_py": BuildWithCourseFiles})
