// Text files, standard input and embedded data as Sources that errors can point into.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/error.h"
#include "estimator/spec/model.h"

namespace gpuplan {

constexpr std::size_t kMaxSourceBytes = std::size_t{4} << 20;

/// Of prices: SkyPilot's of AWS, a line a zone, has more than 10 MiB.
constexpr std::size_t kMaxCatalogBytes = std::size_t{64} << 20;

/// A file. Throws Error: it is missing, a directory, not readable, or larger than `most`.
std::shared_ptr<const Source> read_file_source(const std::string& path, std::size_t most = kMaxSourceBytes);
/// The first bytes of a file, at most `bytes` of them; none of a pipe, which is read once only. Throws Error: it is
/// missing, a directory or not readable.
std::string read_start(const std::string& path, std::size_t bytes);
/// Standard input, named "<stdin>". Throws Error: it is larger than `most`.
std::shared_ptr<const Source> read_stdin_source(std::size_t most = kMaxSourceBytes);
/// "zoo:NAME", an embedded model. Throws Error with the nearest name.
std::shared_ptr<const Source> read_zoo_source(std::string_view name);
std::vector<std::string> zoo_names();
/// The spec of a model as named on the command line: a file, whose kind is recognised, "-" for standard input, or
/// "zoo:NAME". `set`: what --set says; the values that an import takes its sizes from are taken out. Throws Error.
std::shared_ptr<const Source> open_model(const std::string& model, std::vector<Variable>& set);
/// What `extends: NAME` in the source `relative_to` means: a file beside it, or in the zoo a model of the zoo.
std::shared_ptr<const Source> open_extended(std::string_view name, std::string_view relative_to);
/// "NAME=VALUE", as --set takes it. Throws Error.
Variable read_variable(const std::string& text);
/// True for a file, a pipe or anything else that can be opened for reading under that name; directories too.
bool exists(const std::string& path);

}  // namespace gpuplan
