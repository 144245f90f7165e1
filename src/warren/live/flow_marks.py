"""The marks by which links tell classes of bytes apart: a code point (DSCP) in each packet.

A policy of flow gives the bytes of a job a class, 0 to 7. The sending process marks its connection,
and each port of a testbed serves class 0 before 1 before ... 7.

=====  ====  ===================================================================
class  DSCP  name (RFC 2474, RFC 4594)
=====  ====  ===================================================================
0      0     none: all unmarked traffic, so control, and jobs without a class
1      56    CS7
2      48    CS6
...    ...   one less each
7      8     CS1
=====  ====  ===================================================================

From 1 to 7 the classes have the order that the standard gives these code points. Unmarked traffic
comes before all of them on the links of a testbed, and only there: on a switch it commonly has the
last queue. For networks of switches ``SWITCH_POINTS`` marks class 0, too, and class 7 goes with
unmarked traffic; users may state other tables.
"""

from __future__ import annotations

import socket
from typing import Final

from warren.model.decision import CLASSES

CODE_POINTS: Final = tuple((CLASSES - kind) % CLASSES << 3 for kind in range(CLASSES))
"""The DSCP of each class."""
SWITCH_POINTS: Final = tuple((CLASSES - 1 - kind) << 3 for kind in range(CLASSES))
"""The DSCP of each class where unmarked traffic goes last: CS7 for class 0 down to CS0 for 7."""
MOST_POINT: Final = 63
"""The greatest DSCP."""


def mark(end: socket.socket, flow_class: int) -> None:
    """Mark the bytes that a TCP socket sends from now on, and those waiting in it."""
    # Linux reads the field for every packet that it makes, of a connected socket as well. The
    # lowest two bits of TOS belong to congestion control.
    end.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, CODE_POINTS[flow_class] << 2)
