// Remembers from which files a model of `billow run FILE` was created. Times cannot tell: the
// rename of a folder or a new target of a link changes no time of the files. One thread.
#pragma once

#include <string>
#include <vector>

#include "cli/client/create_plan.h"

namespace billow::cli {

// Returns the user's folder for records: $XDG_CACHE_HOME/billow/kept or ~/.cache/billow/kept; ""
// without a home.
std::string kept_files_folder();

class KeptFiles {
 public:
  // Reads the device, inode and size of each file. `model` is the server's address and the model's
  // name. Records are in `folder`; empty: there are no records.
  KeptFiles(const std::string& folder, const std::string& model,
            const std::vector<LocalFile>& files);

  // Returns whether the model's record has exactly these files.
  bool are_stored() const;
  // Writes the model's record. If this fails, are_stored() stays false.
  void store() const;

 private:
  std::string path_;  // of the record
  std::string text_;
};

}  // namespace billow::cli
