# What lessons use: the module that each name is loaded from.
from .attention import attention_explorer as attention_explorer
from .auxiliary_weights import (
    runs_of as runs_of,
    weight_explorer as weight_explorer,
)
from .batch import batch_inspector as batch_inspector
from .beam_search import beam_tree as beam_tree
from .chance import chance_explorer as chance_explorer
from .corruption import corruption_playground as corruption_playground
from .coverage import (
    coverage_player as coverage_player,
    look_of as look_of,
)
from .dashboard import cohort_dashboard as cohort_dashboard
from .generation_trace import generation_trace_player as generation_trace_player
from .loss_terms import loss_terms_explorer as loss_terms_explorer
from .number_line import (
    count_in_float16 as count_in_float16,
    number_line_explorer as number_line_explorer,
)
from .prefix_attention import prefix_attention_explorer as prefix_attention_explorer
from .prompt import prompt_explorer as prompt_explorer
from .record import record_explorer as record_explorer
from .timeline import timeline_explorer as timeline_explorer
from .tokens import token_explorer as token_explorer
