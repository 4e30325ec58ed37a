"""ClassAds as fetchwork reads, prints, compares and evaluates them.

HTCondor's library compares the names of attributes, and texts, by the C library's rules of case, which are
those of the process's locale: in Turkish ``ImageSize`` and ``IMAGESIZE`` differ. What an ad means must not
depend on that, so whoever imports this has LC_CTYPE of C.UTF-8. Streams keep the encoding that they had, and
dates and messages their language.
"""

import locale

for _name in ("C.UTF-8", "C"):
    try:
        locale.setlocale(locale.LC_CTYPE, _name)
    except locale.Error:
        # an old or small system has the second alone
        continue
    break
