"""The schematic pictures of the lessons, made from real objects: a file for each lesson."""
