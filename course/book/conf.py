"""Sphinx settings of the book. `course book` gathers the pages and runs Sphinx on them."""

import gc

# The many small parts of a page live until the end; to look for garbage among them takes time.
gc.set_threshold(200_000, 50, 1000)

project = "EHR course"
author = ""
copyright = "the EHR course's authors. Prose under CC BY 4.0, code under the MIT License"
language = "en"
highlight_language = "none"

extensions = [
    "myst_nb",
    "sphinx-mathjax-offline",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]

# The lessons were run by `course build`; the book shows what they stored.
nb_execution_mode = "off"
# A widget's pictures are stored, so the scripts that would draw it are not loaded.
nb_ipywidgets_js: dict[str, dict] = {}

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 2
exclude_patterns = ["lesson_list.md", "compared_tables.md"]

# The reference of the library: `course/reference.py` writes its pages, autodoc fills them.
add_module_names = False
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}  # else it is ten lines long
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
default_role = "code"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
# A word before a colon in a docstring can be the name of several things, and is no link then.
suppress_warnings = ["ref.python"]

html_theme = "sphinx_book_theme"
html_title = "EHR course"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["course.css"]
html_js_files = ["course.js", "widgets.js"]
html_theme_options = {
    "home_page_in_toc": True,
    "navbar_persistent": [],
    "show_toc_level": 2,
    "use_download_button": False,
}


def setup(app):
    """Leave other libraries out of the reference, and show docstrings as they are written."""
    app.connect("autodoc-skip-member", _is_from_elsewhere)
    app.connect("autodoc-process-docstring", _as_it_is_written, priority=400)


def _is_from_elsewhere(app, what, name, member, skip, options):
    module = getattr(member, "__module__", None) or ""
    return True if module.startswith("matplotlib") else None


def _as_it_is_written(app, what, name, member, options, lines):
    # Napoleon would take what stands before a colon in the first line for a type.
    if what in ("attribute", "data", "property") and lines:
        lines.insert(0, "")
