"""detector_of_ultralytics.py MODEL: one epoch of training on eight random images, with validation."""

import pathlib
import sys
import tempfile

import numpy
from PIL import Image
from ultralytics import YOLO

with tempfile.TemporaryDirectory() as folder:
    for part in ("images", "labels"):
        pathlib.Path(folder, part).mkdir()
    random = numpy.random.default_rng(0)
    for i in range(8):
        pixels = random.integers(0, 255, (240, 320, 3), numpy.uint8)
        Image.fromarray(pixels).save(f"{folder}/images/{i}.png")
        pathlib.Path(folder, "labels", f"{i}.txt").write_text("0 0.5 0.5 0.2 0.3\n1 0.3 0.3 0.1 0.1\n")
    data = pathlib.Path(folder, "data.yaml")
    data.write_text(f"path: {folder}\ntrain: images\nval: images\nnames: [a, b]\n")
    model = YOLO(sys.argv[1] + ".yaml")
    model.train(data=str(data), epochs=1, imgsz=320, batch=4, device=0, workers=0, plots=False, amp=False, project=folder)
print("trained")
