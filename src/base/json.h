// The JSON type of the program. Objects keep the order of their members. Include this from .cpp
// files only; headers include base/json_fwd.h.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json_fwd.h"
