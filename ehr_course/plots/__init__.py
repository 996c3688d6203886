"""Pictures for lessons and reports: data in, picture out.

No widget, no model of its own, no global plotting state. What lessons use is imported from here,
and loaded when it is first asked for; `__init__.pyi` lists it.
"""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
