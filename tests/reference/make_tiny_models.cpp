// make_tiny_models DIR: writes every tiny variant into DIR as NAME.gguf, for other programs to
// read.
#include <cstdio>
#include <exception>
#include <string>

#include "reference/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_tiny_models DIR\n");
    return 2;
  }
  try {
    for (const auto& [name, options] : billow::reference::tiny_variants()) {
      const std::string path = std::string(argv[1]) + "/" + name + ".gguf";
      billow::reference::write_tiny_model(options, path);
      std::printf("%s\n", path.c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_tiny_models: %s\n", error.what());
    return 1;
  }
}
