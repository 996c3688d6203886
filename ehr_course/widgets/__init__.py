"""Controls around plots: move one, and the picture is drawn again."""
