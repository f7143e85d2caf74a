// JSON as the program uses it: objects keep the order in which they were written. Include from .cpp
// files; headers include base/json_fwd.h.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json_fwd.h"
