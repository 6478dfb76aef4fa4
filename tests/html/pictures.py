"""Takes the pictures of docs/html: one of each view, of real traces.

    pictures.py OPGAP TRAINING GPU RANKS [FOLDER]

TRAINING: a trace of the demo's training (tools/demo.sh); GPU: one with GPU activity, for example of
`PLANT_SLEEP=2000 gpu_scenario ranges 40` of tests/fakes; RANKS: one of several ranks, for example of
tests/ranks/train.py.  FOLDER: where they go, docs/html without it.
"""
import base64
import os
import sys
import tempfile

from browser import Page, run

LIMIT = 60000  # bytes of a picture
TRAINING = ("verdict", "steps", "gaps", "loader", "timeline", "ops", "flame", "memory", "files", "locks", "calls", "processes")


def take(page, view, path, height=620):
    """The first lines of a view, as WebP of whatever quality fits."""
    page.do("document.getElementById('nav').hidden = true; document.getElementById('%s').scrollIntoView()" % view)
    page.frame()
    clip = page.js("(() => { const b = document.getElementById('%s').getBoundingClientRect(); return { x: 0, y: b.top + scrollY, "
                   "width: innerWidth, height: Math.min(%d, b.height + 14), scale: 1 }; })()" % (view, height))
    for quality in range(85, 5, -10):
        data = base64.b64decode(page.command("Page.captureScreenshot", format="webp", quality=quality, clip=clip,
                                             captureBeyondViewport=True)["data"])
        if len(data) < LIMIT:
            break
    with open(path, "wb") as file:
        file.write(data)
    print("%s: %d bytes" % (path, len(data)))


def main():
    opgap, training, gpu, ranks = map(os.path.abspath, sys.argv[1:5])
    folder = sys.argv[5] if len(sys.argv) > 5 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/html")
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "page.html")
        run([opgap, "html", training, "-o", path])
        with Page(path, 1160, 900) as page:
            for view in TRAINING:
                take(page, view, os.path.join(folder, view + ".webp"))
        with Page(path, 1160, 900, dark=True) as page:
            start, length = page.js("[opgap.data.sets[1].from, opgap.data.sets[1].to - opgap.data.sets[1].from]")
            page.do("opgap.timelineApi.view(%f, %f)" % (start + length * .3, start + length * .8))
            take(page, "timeline", os.path.join(folder, "timeline-step.webp"))
        run([opgap, "html", gpu, "-o", path])
        with Page(path, 1160, 900) as page:
            take(page, "gpu", os.path.join(folder, "gpu.webp"))
            page.press("#flame-selfGpu")
            take(page, "flame", os.path.join(folder, "flame-gpu.webp"))
        with Page(path, 1160, 900, dark=True) as page:
            take(page, "timeline", os.path.join(folder, "timeline-gpu.webp"))
        with Page(path, 375, 760) as page:
            take(page, "verdict", os.path.join(folder, "phone.webp"), 760)
        run([opgap, "html", ranks, "-o", path])
        with Page(path, 1160, 900) as page:
            take(page, "processes", os.path.join(folder, "ranks.webp"))


main()
