"""A wheelhouse is made whole, goes on where it stopped, and checks what it fetches."""

from __future__ import annotations

import hashlib
import http.server
import io
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from course import fetching, wheelhouse_maker
from course.command_error import CommandError
from course.download_bar import DownloadBar
from course.fetching import Remote, fetch_all
from course.wheelhouse import Target, check_wheels, read_wheelhouse

ROOT = Path(__file__).resolve().parents[2]
TARGET = Target("3.12", "windows")
WHOLE = bytes(range(256)) * 4000  # 1 MB, in four pieces

# What it plans is a file; what it builds is a file of another. Each question is noted.
A_UV = """\
#!/bin/sh
here="$(dirname "$0")"
echo "$MACOSX_DEPLOYMENT_TARGET $@" >> "$here/asked"
if [ "$1" = build ]; then
    while [ "$1" != --out-dir ]; do shift; done
    mkdir -p "$2" && echo built > "$2/old-1.0-py3-none-any.whl"
    exit 0
fi
case "$*" in
    *--torch-backend*) cat "$here/cpu.toml" ;;
    *) cat "$here/lock.toml" ;;
esac
"""


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one file; breaks off as often as `breaks` says, each time after 600 kB."""

    breaks = 0
    ranges = True
    asked: list[str | None]

    def do_GET(self) -> None:
        wanted = self.headers.get("Range") if self.ranges else None
        self.asked.append(wanted)
        if self.path != "/thing.whl":
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start >= len(WHOLE):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(WHOLE) - start))
        self.end_headers()
        end = len(WHOLE)
        if type(self).breaks:
            type(self).breaks -= 1
            end = min(end, start + 600_000)
        self.wfile.write(WHOLE[start:end])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    handler = type("OneTest", (Handler,), {"asked": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        handler.address = f"http://127.0.0.1:{running.server_port}"
        yield handler
        running.shutdown()


def remote(server, name: str = "thing.whl", sha256: str | None = None) -> Remote:
    right = hashlib.sha256(WHOLE).hexdigest()
    return Remote(name, f"{server.address}/{name}", len(WHOLE), sha256 or right, "thing")


def fetch(file: Remote, folder: Path) -> DownloadBar:
    bar = DownloadBar(len(WHOLE), io.StringIO())
    fetch_all([file], folder, bar, seconds_between_tries=0.01)
    return bar


# ------------------------------------------------------------------------------- fetching


def test_a_file_is_fetched_whole_and_the_bar_ends_at_its_size(server, tmp_path):
    bar = fetch(remote(server), tmp_path)
    assert (tmp_path / "thing.whl").read_bytes() == WHOLE
    assert bar.fetched == len(WHOLE)
    assert [file.name for file in tmp_path.iterdir()] == ["thing.whl"]


def test_a_connection_that_breaks_off_is_resumed_where_it_broke(server, tmp_path):
    server.breaks = 1
    fetch(remote(server), tmp_path)
    assert (tmp_path / "thing.whl").read_bytes() == WHOLE
    assert server.asked == [None, "bytes=600000-"]


def test_a_download_of_an_earlier_run_is_resumed(server, tmp_path):
    (tmp_path / "thing.whl.part").write_bytes(WHOLE[:1000])
    fetch(remote(server), tmp_path)
    assert (tmp_path / "thing.whl").read_bytes() == WHOLE
    assert server.asked == ["bytes=1000-"]


def test_a_server_that_knows_no_parts_begins_at_the_beginning(server, tmp_path):
    server.ranges = False
    (tmp_path / "thing.whl.part").write_bytes(WHOLE[:1000])
    fetch(remote(server), tmp_path)
    assert (tmp_path / "thing.whl").read_bytes() == WHOLE


def test_a_part_that_is_too_long_is_thrown_away(server, tmp_path):
    (tmp_path / "thing.whl.part").write_bytes(WHOLE + b"more")
    fetch(remote(server), tmp_path)
    assert (tmp_path / "thing.whl").read_bytes() == WHOLE


def test_what_is_there_and_right_is_not_fetched_again(server, tmp_path):
    (tmp_path / "thing.whl").write_bytes(WHOLE)
    fetch(remote(server), tmp_path)
    assert server.asked == []


def test_another_file_under_its_name_is_refused_and_removed(server, tmp_path):
    with pytest.raises(CommandError, match=r"thing\.whl is not what the index says"):
        fetch(remote(server, sha256="0" * 64), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there_is_named_at_once(server, tmp_path):
    with pytest.raises(CommandError, match=r"gone\.whl cannot be fetched: 404"):
        fetch(remote(server, "gone.whl"), tmp_path)
    assert len(server.asked) == 1


def test_a_connection_that_never_holds_is_given_up_and_keeps_its_part(server, tmp_path):
    server.breaks = 99
    server.ranges = False
    with pytest.raises(CommandError, match="broke off after 600000 of 1024000 bytes"):
        fetch(remote(server), tmp_path)
    assert len(server.asked) == fetching.TRIES
    assert (tmp_path / "thing.whl.part").stat().st_size == 600_000


def test_a_dead_address_is_said_with_the_remedy(tmp_path):
    dead = Remote("thing.whl", "http://127.0.0.1:9/thing.whl", 5, "", "thing")
    with pytest.raises(CommandError, match=r"Connection refused|actively refused") as raised:
        fetch(dead, tmp_path)
    assert "HTTPS_PROXY" in str(raised.value)


# ------------------------------------------------------------------------------- the folder


@pytest.fixture
def uv(tmp_path):
    """Return a stand-in for uv that plans one wheel, and one package that has none."""
    place = tmp_path / "program"
    place.mkdir()
    (place / "thing-1.0-py3-none-any.whl").write_bytes(WHOLE)
    (place / "old-1.0.tar.gz").write_bytes(b"a source")
    wheel = (place / "thing-1.0-py3-none-any.whl").as_uri()
    sha256 = hashlib.sha256(WHOLE).hexdigest()
    lock = f"""
[[packages]]
name = "thing"
version = "1.0"
wheels = [{{ url = "{wheel}", hashes = {{ sha256 = "{sha256}" }} }}]
[[packages]]
name = "old"
version = "1.0"
sdist = {{ url = "{(place / "old-1.0.tar.gz").as_uri()}", size = 8 }}
"""
    (place / "lock.toml").write_text(lock, encoding="utf-8")
    program = place / "uv"
    program.write_text(A_UV, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def make(uv: Path, out: Path, *targets: Target) -> None:
    wheelhouse_maker.make(ROOT, [str(uv)], out, targets or [TARGET])


def test_the_folder_holds_wheels_checksums_and_a_page_for_the_class(uv, tmp_path, capsys):
    out = tmp_path / "wheelhouse"
    make(uv, out, TARGET, Target("3.11", "linux"))
    assert sorted(file.name for file in out.iterdir()) == [
        "README.md",
        "SHA256SUMS",
        "wheelhouse.json",
        "wheels",
    ]
    house = read_wheelhouse(out)
    names = ("old-1.0-py3-none-any.whl", "thing-1.0-py3-none-any.whl")
    assert house.targets == {TARGET: names, Target("3.11", "linux"): names}
    check_wheels(house, names)
    page = (out / "README.md").read_text(encoding="utf-8")
    assert "- Python 3.12 for Windows on x86-64\n- Python 3.11 for Linux on x86-64" in page
    assert "py -3.12 -m course lab" in page
    summed = subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=out, capture_output=True)
    assert summed.returncode == 0, summed.stderr
    said = capsys.readouterr().out
    assert "2 packages, 1 MB" in said
    assert said.index("Up to 1 MB are fetched") < said.index("is ready after")


def test_the_first_and_the_last_patch_of_a_python_are_asked_for(uv, tmp_path):
    """Pins differ within Python 3.11: soupsieve has another one before 3.11.5."""
    make(uv, tmp_path / "wheelhouse", Target("3.11", "macos"))
    asked = (uv.parent / "asked").read_text(encoding="utf-8")
    for patch in ("3.11.0", "3.11.99"):
        assert f"--python-version {patch} --python-platform aarch64-apple-darwin" in asked
    assert asked.startswith("14.0 "), "PyTorch has no wheels for an older macOS"


def test_pytorchs_build_without_cuda_is_taken_where_the_ordinary_one_brings_cuda(uv, tmp_path):
    lock = (uv.parent / "lock.toml").read_text(encoding="utf-8")
    (uv.parent / "cpu.toml").write_text(lock, encoding="utf-8")
    cuda = '\n[[packages]]\nname = "nvidia-cublas"\nversion = "1"\nwheels = [{url="file:///no"}]\n'
    (uv.parent / "lock.toml").write_text(lock + cuda, encoding="utf-8")
    make(uv, tmp_path / "wheelhouse")
    assert "--torch-backend cpu" in (uv.parent / "asked").read_text(encoding="utf-8")
    assert len(read_wheelhouse(tmp_path / "wheelhouse").files) == 2


def test_what_is_needed_no_more_is_deleted_and_what_is_there_is_kept(uv, tmp_path, capsys):
    out = tmp_path / "wheelhouse"
    make(uv, out)
    (out / "wheels" / "former-0.9-py3-none-any.whl").write_bytes(b"of an earlier version")
    capsys.readouterr()
    make(uv, out)
    assert "Up to 0 MB are fetched" in capsys.readouterr().out
    assert sorted(file.name for file in (out / "wheels").iterdir()) == [
        "old-1.0-py3-none-any.whl",
        "thing-1.0-py3-none-any.whl",
    ]


def test_one_that_was_cut_off_says_so_and_the_same_command_finishes_it(uv, tmp_path):
    out = tmp_path / "wheelhouse"
    wheel = uv.parent / "thing-1.0-py3-none-any.whl"
    away = wheel.rename(wheel.with_suffix(".away"))
    with pytest.raises(CommandError, match="cannot be fetched"):
        make(uv, out)
    assert "not finished" in (out / "NOT_FINISHED.txt").read_text(encoding="utf-8")
    with pytest.raises(CommandError, match="not finished"):
        read_wheelhouse(out)
    away.rename(wheel)
    make(uv, out)
    assert len(read_wheelhouse(out).files) == 2
    assert not (out / "NOT_FINISHED.txt").exists()


def test_a_folder_with_something_else_in_it_is_left_alone(uv, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(CommandError, match="has something in it that is not a wheelhouse"):
        make(uv, tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_too_small_a_disk_is_said_before_anything_is_fetched(uv, tmp_path, monkeypatch):
    usage = wheelhouse_maker.shutil.disk_usage(tmp_path)._replace(free=50_000_000)
    monkeypatch.setattr(wheelhouse_maker.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(CommandError, match="50 MB free; the wheelhouse needs 101 MB more"):
        make(uv, tmp_path / "wheelhouse")
    assert list((tmp_path / "wheelhouse" / "wheels").iterdir()) == []


def test_what_uv_does_not_find_is_said_for_which_machine(uv, tmp_path):
    uv.write_text("#!/bin/sh\necho 'no wheel of torch' >&2; exit 1\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"Python 3\.12 for Windows") as raised:
        make(uv, tmp_path / "wheelhouse")
    assert "  | no wheel of torch" in str(raised.value)
    assert not (tmp_path / "wheelhouse").exists()


def test_a_package_that_builds_for_this_machine_alone_is_refused(uv, tmp_path):
    text = A_UV.replace("py3-none-any", "cp311-cp311-linux_x86_64")
    uv.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError, match="is for this machine alone"):
        make(uv, tmp_path / "wheelhouse")


@pytest.mark.parametrize("wrong", [("--python", "3.9"), ("--platform", "amiga"), ()])
def test_a_wrong_command_line_is_refused(wrong, capsys):
    out = ("--out", "somewhere") if wrong else ()
    with pytest.raises(SystemExit) as raised:
        wheelhouse_maker.main([*out, *wrong])
    assert raised.value.code == 2
    assert "usage: python3 -m course wheelhouse" in capsys.readouterr().err
