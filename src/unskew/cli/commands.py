"""The list of commands: importing this module registers them on the app, in the order of the help page."""

from __future__ import annotations
