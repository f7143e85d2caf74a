"""Finds the files of the models. llama-quantize makes derived models once; synthetic.py makes synthetic models once."""

import os
import pathlib
import shutil
import subprocess

from comparison import synthetic
from comparison.cases import MODELS


class ModelFiles:
    def __init__(self, folder, derived, quantizers, synthetic_folder=synthetic.FOLDER):
        """`folder` has the real models. `derived` gets the derived models, which one of `quantizers` (LlamaCpp) makes."""
        self.folder, self.derived, self.synthetic = map(pathlib.Path, (folder, derived, synthetic_folder))
        self.quantizer = next((peer for peer in quantizers if peer.tool("llama-quantize")), None)

    def path(self, name):
        model = MODELS[name]
        return (self.synthetic if model.synthetic else self.derived if model.base else self.folder) / model.file

    def missing(self, name):
        """Returns why the model is missing and cannot be made, or None if it exists or can be made."""
        if self.path(name).exists() or MODELS[name].synthetic:
            return None
        base = MODELS[name].base
        if not base:
            return f"{self.path(name)} is missing: run tools/setup models to download it"
        if self.missing(base):
            return self.missing(base)
        return None if self.quantizer else "no llama.cpp here has llama-quantize, which makes this model"

    def get(self, name, say):
        """Returns the file. Makes the file if necessary. Raises OSError or CalledProcessError."""
        path = self.path(name)
        if not path.exists():
            say(f"making {path}")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._make(name, path)
        return path

    def _make(self, name, path):
        if MODELS[name].synthetic:
            return synthetic.make(name, path)
        tools, part = self.quantizer, path.with_name(path.name + ".part")
        source = tools.visible(self.path(MODELS[name].base))
        inside, outside = tools.scratch(part)
        command = tools.tool("llama-quantize") + ["--allow-requantize", source, inside, MODELS[name].quantize_to]
        try:
            subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
            if outside != part:
                shutil.move(outside, part)
            os.replace(part, path)
        finally:
            outside.unlink(missing_ok=True)
