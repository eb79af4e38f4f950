"""The version of this package; a release sets it."""

VERSION = "0.0.0"
