"""Where llama.cpp's programs are: BILLOW_LLAMA_QUANTIZE and its like name them, else PATH is searched."""
import os
import shutil


def find(name):
    return os.environ.get("BILLOW_" + name.upper().replace("-", "_")) or shutil.which(name)
