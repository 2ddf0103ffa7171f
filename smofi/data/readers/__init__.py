"""One file per layout: each finds its files in a folder, refuses what is not as it should be, and decodes the rest."""
