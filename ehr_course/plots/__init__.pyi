# What lessons use: the module that each name is loaded from.
from .batch import (
    COLOURS as COLOURS,
    kinds_of as kinds_of,
)
from .charts import (
    blank_chart as blank_chart,
    draw_bars as draw_bars,
    draw_dots as draw_dots,
    draw_heat as draw_heat,
    draw_lines as draw_lines,
)
from .corruption import corrupt_visits as corrupt_visits
from .diagrams import (
    draw_flow as draw_flow,
    draw_strips as draw_strips,
    token_fill as token_fill,
)
from .lesson_00 import (
    draw_check as draw_check,
    draw_code_paths as draw_code_paths,
    draw_course_map as draw_course_map,
    draw_guess as draw_guess,
    draw_patient as draw_patient,
)
from .lesson_07 import draw_lattice as draw_lattice
from .lesson_08 import (
    draw_lost_zeros as draw_lost_zeros,
    draw_tables as draw_tables,
)
from .lesson_09 import (
    draw_damaged_visits as draw_damaged_visits,
    draw_training_pair as draw_training_pair,
)
from .lesson_10 import (
    draw_path as draw_path,
    draw_tensors as draw_tensors,
)
from .lesson_11 import (
    draw_attention_steps as draw_attention_steps,
    draw_cross_attention as draw_cross_attention,
    draw_model as draw_model,
)
from .lesson_18 import draw_longer_keys as draw_longer_keys
from .measures import draw_measures as draw_measures
from .record import returning_codes as returning_codes
from .style import (
    chapter_of as chapter_of,
    code_in_words as code_in_words,
    who as who,
)
from .timeline import repeats as repeats
