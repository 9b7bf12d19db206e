"""The matrix: this project's live tests in virtual machines of many kinds, with real engines, by one command."""
