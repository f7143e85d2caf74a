"""Finds llama.cpp's programs: by environment variables like BILLOW_LLAMA_QUANTIZE, else in PATH."""
import os
import shutil


def find(name):
    return os.environ.get("BILLOW_" + name.upper().replace("-", "_")) or shutil.which(name)
