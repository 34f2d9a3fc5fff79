"""Lets the tests of this folder import its helpers."""
