"""The repository's address makes the badges, and without one there are none."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from course import build
from course.command_error import CommandError
from course.lesson_tables import stale, up_to_date
from course.repository import BEGIN, END, FILES, badges, repository_address, with_badges

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "https://github.com/someone/a-course"


def clone(folder: Path, urls: str = "") -> Path:
    """Make a clone of what the badges are made from."""
    text = f"[project]\nname = 'ehr-course'\n{urls}"
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(f"# Title\n\n{BEGIN}\n{END}\n\nText.\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("key", ["Repository", "repository", "Source", "GitHub"])
def test_the_address_is_read_from_the_project(tmp_path, key):
    assert repository_address(clone(tmp_path, f'[project.urls]\n{key} = "{ADDRESS}"\n')) == ADDRESS


def test_another_url_is_no_repository(tmp_path):
    urls = f'[project.urls]\nDocumentation = "{ADDRESS}"\n'
    assert repository_address(clone(tmp_path, urls)) is None


def test_without_an_address_the_files_show_no_badge(tmp_path):
    assert up_to_date(clone(tmp_path)) == {}
    assert badges(repository_address(tmp_path), pictures=True) == ""


def test_the_course_itself_shows_badges_only_if_it_has_an_address():
    assert stale(ROOT) == []
    for file in FILES:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert text.count(BEGIN) == text.count(END) == 1
        shown = text.partition(BEGIN)[2].partition(END)[0].strip()
        assert bool(shown) == (repository_address(ROOT) is not None)


def test_the_build_writes_the_badges_and_takes_them_away(tmp_path, capsys):
    clone(tmp_path, f'[project.urls]\nRepository = "{ADDRESS}.git"\n')
    readme, first_page = (tmp_path / file for file in FILES)
    before = [file.read_text(encoding="utf-8") for file in (readme, first_page)]
    assert build.check_tables(tmp_path) == 2
    said = capsys.readouterr().out
    assert "README.md: its badges are not those of pyproject.toml." in said
    assert build.write_tables(tmp_path) == [readme, first_page]
    assert stale(tmp_path) == []
    assert "![Open in Colab](" in readme.read_text(encoding="utf-8")
    page = first_page.read_text(encoding="utf-8")
    assert "[Open in Binder](" in page
    assert "![" not in page, "the book loads no picture from elsewhere"
    clone_text = "[project]\nname = 'ehr-course'\n"
    (tmp_path / "pyproject.toml").write_text(clone_text, encoding="utf-8")
    build.write_tables(tmp_path)
    assert [file.read_text(encoding="utf-8") for file in (readme, first_page)] == before


def test_every_badge_opens_the_first_lesson_of_this_repository():
    line = badges(ADDRESS, pictures=False)
    links = [urlsplit(part.partition("](")[2].rstrip(")")) for part in line.split(" · ")]
    colab, binder, kaggle = links
    lesson = "lessons/00_start_here.ipynb"
    assert (ROOT / lesson).is_file()
    assert colab.netloc + colab.path == (
        f"colab.research.google.com/github/someone/a-course/blob/main/{lesson}"
    )
    assert binder.netloc + binder.path == "mybinder.org/v2/gh/someone/a-course/main"
    assert parse_qs(binder.query) == {"labpath": [lesson]}
    assert parse_qs(kaggle.query) == {"src": [f"{ADDRESS}/blob/main/{lesson}"]}


def test_a_repository_elsewhere_has_no_badge():
    assert badges("https://example.org/someone/a-course", pictures=True) == ""


@pytest.mark.parametrize("change", [(END, ""), (BEGIN, f"{BEGIN}\n{BEGIN}"), (BEGIN, "")])
def test_a_file_without_a_clear_place_is_named(tmp_path, change):
    clone(tmp_path, f'[project.urls]\nRepository = "{ADDRESS}"\n')
    text = (tmp_path / FILES[0]).read_text(encoding="utf-8").replace(*change)
    with pytest.raises(CommandError, match=r"README\.md has no clear place"):
        with_badges(tmp_path, FILES[0], text)
