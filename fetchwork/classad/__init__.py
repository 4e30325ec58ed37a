"""Reading, printing, comparing and evaluating ClassAds.

HTCondor's library compares names of attributes, and strings, by the C library's rules of case, which depend
on the process's locale: in Turkish ``ImageSize`` and ``IMAGESIZE`` differ. An ad's meaning must not depend on
it, so importing this package sets LC_CTYPE to C.UTF-8. Streams keep their encoding, and dates and messages
their language.
"""

import locale

for _name in ("C.UTF-8", "C"):
    try:
        locale.setlocale(locale.LC_CTYPE, _name)
    except locale.Error:
        # an old or small system has only the second
        continue
    break
