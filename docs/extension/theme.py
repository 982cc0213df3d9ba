"""Makes Debian's Furo work, and from a folder: its style sheet asks a web server for normalize.css and has lost the dark
colours of browsers that prefer these (Debian's sassc drops a media query within another), and its script is a module, which
browsers load over HTTP only. Another Furo, which has none of these faults, stays as it is."""

import pathlib
import re
import shutil

NORMALIZE = pathlib.Path("/usr/share/javascript/normalize.css/normalize.css")


def _mend(app, error):
    if error or app.builder.format != "html":
        return
    static = pathlib.Path(app.outdir) / "_static"
    sheet, script = static / "styles/furo.css", static / "scripts/furo.js"
    asked = f"@import url(/{NORMALIZE.relative_to('/usr/share')});"
    if asked in sheet.read_text():
        shutil.copyfile(NORMALIZE, sheet.parent / NORMALIZE.name)
        sheet.write_text(sheet.read_text().replace(asked, f"@import url({NORMALIZE.name});"))
    if "prefers-color-scheme" not in sheet.read_text():
        dark = re.search(r'@media not print \{\n  body\[data-theme="dark"\] \{.*? \} \}\n', sheet.read_text(), re.DOTALL)[0]
        dark = dark.replace("@media not print", "@media screen and (prefers-color-scheme: dark)")
        sheet.write_text(sheet.read_text() + dark.replace('body[data-theme="dark"]', 'body:not([data-theme="light"])'))
    imported = re.match(r'import Gumshoe from "\./([\w-]+\.js)";\n', script.read_text())
    if imported:
        spy = (script.parent / imported[1]).read_text()
        script.write_text(spy + script.read_text()[imported.end():])


def setup(app):
    app.connect("build-finished", _mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
