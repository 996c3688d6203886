"""Sphinx settings of the book. `course book` gathers the pages and runs Sphinx on them."""

project = "EHR course"
author = ""
copyright = "the EHR course's authors. Prose under CC BY 4.0, code under the MIT License"
language = "en"
highlight_language = "none"

extensions = ["myst_nb", "sphinx-mathjax-offline"]

# The lessons were run by `course build`; the book shows what they stored.
nb_execution_mode = "off"
# A widget's pictures are stored, so the scripts that would draw it are not loaded.
nb_ipywidgets_js = {}

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 2
exclude_patterns = ["lesson_list.md", "compared_tables.md"]

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
