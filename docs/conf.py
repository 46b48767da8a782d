"""Sphinx configuration; built with warnings as errors by `make docs`."""

from importlib.metadata import version as installed_version

project = "exactness"
author = "The exactness developers"
copyright = "The exactness developers, Apache-2.0"
version = release = installed_version("exactness")

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

nitpicky = True
html_theme = "furo"
html_title = f"exactness {release}"
