"""Where the models' files are. Those derived from others are made once, by llama-quantize, and synthetic ones by
themselves."""

import os
import pathlib
import shutil
import subprocess

from comparison import synthetic
from comparison.cases import MODELS


class ModelFiles:
    def __init__(self, folder, derived, quantizers, synthetic_folder=synthetic.FOLDER):
        """`folder` holds the real models, `derived` gets those made from them; one of `quantizers` (LlamaCpp) makes them."""
        self.folder, self.derived, self.synthetic = map(pathlib.Path, (folder, derived, synthetic_folder))
        self.quantizer = next((peer for peer in quantizers if peer.tool("llama-quantize")), None)

    def path(self, name):
        model = MODELS[name]
        return (self.synthetic if model.synthetic else self.derived if model.base else self.folder) / model.file

    def missing(self, name):
        """Why the model is not there and cannot be made; None when it is or can."""
        if self.path(name).exists() or MODELS[name].synthetic:
            return None
        base = MODELS[name].base
        if not base:
            return f"{self.path(name)} is not there: tools/setup models fetches it"
        if self.missing(base):
            return self.missing(base)
        return None if self.quantizer else "no llama-quantize beside any llama.cpp here to make it"

    def get(self, name, say):
        """The file, made now where it has to be. Raises OSError or CalledProcessError."""
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
