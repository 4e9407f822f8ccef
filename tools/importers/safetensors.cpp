#include "tools/importers/safetensors.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>

#include "tools/files/read_input.h"
#include "tools/importers/import.h"
#include "tools/importers/json_text.h"

namespace gpuplan {

namespace {

namespace fs = std::filesystem;

// The format allows 100 MB; the headers of the largest published models have a few.
constexpr std::uint64_t kMostHeaderBytes = std::uint64_t{16} << 20;
constexpr std::size_t kLengthBytes = 8;

struct StoredType {
  std::string_view name;
  std::int64_t bits;
};
constexpr StoredType kTypes[] = {
    {"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8},
    {"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32}, {"F64", 64}, {"I64", 64}, {"U64", 64},    {"C64", 64},    {"F4", 4},
};

const JsonValue& member(const JsonMember& tensor, std::string_view key, JsonValue::Kind kind) {
  const JsonValue* const value = tensor.value.find(key);
  if (value == nullptr)
    throw Error("the tensor \"" + tensor.key + "\" has no \"" + std::string(key) + "\"").at(tensor.mark);
  if (value->kind != kind)
    throw Error("\"" + std::string(key) + "\" is " + std::string(describe(kind)) + ", not " +
                std::string(describe(value->kind)))
        .at(value->mark);
  return *value;
}

std::int64_t count_of(const JsonValue& value) {
  std::int64_t count = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [at, problem] = std::from_chars(value.text.data(), end, count);
  if (value.kind != JsonValue::Kind::number || problem != std::errc() || at != end || count < 0)
    throw Error("expected a whole number from 0 to 2^63 - 1").at(value.mark);
  return count;
}

// Bytes of a shape, each factor checked.
std::int64_t bytes_of(const JsonMember& tensor, std::int64_t bits, const std::vector<std::int64_t>& shape) {
  std::int64_t total = bits;
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(total, size, &total))
      throw Error("the tensor \"" + tensor.key + "\" has more bytes than 63 bits count").at(tensor.mark);
  if (total % 8 != 0) throw Error("the tensor \"" + tensor.key + "\" ends within a byte").at(tensor.mark);
  return total / 8;
}

struct Extent {
  std::int64_t begin, end;
  const JsonMember* tensor;
};

StoredTensor stored_tensor(const JsonMember& tensor, Extent& extent) {
  if (tensor.value.kind != JsonValue::Kind::object)
    throw Error("the tensor \"" + tensor.key + "\" is an object with dtype, shape and data_offsets").at(tensor.mark);
  StoredTensor stored{.name = tensor.key, .dtype = "", .shape = {}};
  const JsonValue& dtype = member(tensor, "dtype", JsonValue::Kind::string);
  const auto* const type = std::ranges::find(kTypes, dtype.text, &StoredType::name);
  if (type == std::end(kTypes)) throw Error("unknown type \"" + dtype.text + "\"").at(dtype.mark);
  stored.dtype = dtype.text;
  for (const JsonValue& size : member(tensor, "shape", JsonValue::Kind::array).items)
    stored.shape.push_back(count_of(size));
  stored.bytes = bytes_of(tensor, type->bits, stored.shape);
  const JsonValue& offsets = member(tensor, "data_offsets", JsonValue::Kind::array);
  if (offsets.items.size() != 2) throw Error("\"data_offsets\" are two numbers").at(offsets.mark);
  extent = {count_of(offsets.items[0]), count_of(offsets.items[1]), &tensor};
  if (extent.end - extent.begin != stored.bytes)
    throw Error("the tensor \"" + tensor.key + "\" has " + std::to_string(stored.bytes) + " bytes by its shape, and " +
                std::to_string(extent.end - extent.begin) + " by its offsets")
        .at(offsets.mark);
  return stored;
}

// One behind the other, without gaps, up to the end of the file.
void check_extents(std::vector<Extent>& extents, std::uint64_t data_bytes) {
  std::ranges::sort(
      extents, [](const Extent& a, const Extent& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  std::int64_t end = 0;
  for (const Extent& extent : extents) {
    if (extent.begin < end)
      throw Error("the tensor \"" + extent.tensor->key + "\" overlaps another one").at(extent.tensor->mark);
    if (extent.begin > end)
      throw Error("bytes that belong to no tensor precede \"" + extent.tensor->key + "\"").at(extent.tensor->mark);
    end = extent.end;
  }
  if (static_cast<std::uint64_t>(end) > data_bytes)
    throw Error("the file ends before its tensors do: they have " + std::to_string(end) + " bytes, and " +
                std::to_string(data_bytes) + " are there");
  if (static_cast<std::uint64_t>(end) < data_bytes)
    throw Error(std::to_string(data_bytes - static_cast<std::uint64_t>(end)) +
                " bytes after the tensors belong to no tensor");
}

StoredTensors read_one(const std::string& path) {
  const std::string length = read_start(path, kLengthBytes);
  if (length.size() < kLengthBytes) throw Error(path + " is not a safetensors file: it has fewer than 8 bytes");
  std::error_code ignored;
  const std::uint64_t file_bytes = fs::file_size(path, ignored);
  std::uint64_t header_bytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) header_bytes = header_bytes << 8 | static_cast<unsigned char>(length[i]);
  if (header_bytes > file_bytes - kLengthBytes)
    throw Error(path + " is not a safetensors file, or truncated: its header claims " + std::to_string(header_bytes) +
                " bytes, and " + std::to_string(file_bytes - kLengthBytes) + " follow");
  if (header_bytes > kMostHeaderBytes)
    throw Error(path + ": a header of " + std::to_string(header_bytes) + " bytes is larger than 16 MiB");
  const std::size_t begin = kLengthBytes, end = begin + static_cast<std::size_t>(header_bytes);
  const Source header{path, read_start(path, end).substr(begin)};
  if (header.text.size() != header_bytes) throw Error(path + " ends before its header does");
  return parse_safetensors_header(header, file_bytes - kLengthBytes - header_bytes);
}

// The tensors of each file that an index names, read once.
struct Shards {
  std::string folder;
  std::map<std::string, std::optional<std::map<std::string, StoredTensor>>> files;

  const StoredTensor* find(const JsonMember& entry) {
    const auto [at, is_new] = files.try_emplace(entry.value.text);
    const std::string path = (fs::path(folder) / entry.value.text).string();
    std::error_code ignored;
    if (is_new && fs::is_regular_file(path, ignored)) {
      at->second.emplace();
      for (StoredTensor& tensor : read_one(path).tensors) at->second->emplace(tensor.name, std::move(tensor));
    }
    if (!at->second) return nullptr;
    const auto tensor = at->second->find(entry.key);
    if (tensor == at->second->end())
      throw Error(entry.value.text + " has no tensor \"" + entry.key + "\"").at(entry.mark);
    return &tensor->second;
  }
};

StoredTensors read_index(const std::string& path) {
  const Source source{path, read_all(path, {kMostHeaderBytes, "which no index is"})};
  const JsonValue document = parse_json(source);
  const JsonValue* const map = document.find("weight_map");
  if (map == nullptr || map->kind != JsonValue::Kind::object)
    throw Error("an index has a \"weight_map\": from tensors to the files that hold them").at(document.mark);
  Shards shards{.folder = fs::path(path).parent_path().string(), .files = {}};
  StoredTensors stored;
  for (const JsonMember& entry : map->members) {
    const std::string& name = entry.value.text;
    if (entry.value.kind != JsonValue::Kind::string || name.empty() || name.find('/') != std::string::npos)
      throw Error("expected the name of a file next to the index").at(entry.value.mark);
    const StoredTensor* const tensor = shards.find(entry);
    stored.tensors.push_back(tensor != nullptr ? *tensor : StoredTensor{.name = entry.key, .dtype = "", .shape = {}});
  }
  for (const auto& [name, tensors] : shards.files)
    if (!tensors) stored.absent_files.push_back(name);
  return stored;
}

}  // namespace

StoredTensors parse_safetensors_header(const Source& header, std::uint64_t data_bytes) {
  const JsonValue document = parse_json(header);
  if (document.kind != JsonValue::Kind::object)
    throw Error("a header must be an object, not " + std::string(describe(document.kind))).at(document.mark);
  StoredTensors stored;
  std::vector<Extent> extents;
  for (const JsonMember& entry : document.members) {
    if (entry.key == "__metadata__") continue;
    stored.tensors.push_back(stored_tensor(entry, extents.emplace_back()));
  }
  check_extents(extents, data_bytes);
  return stored;
}

StoredTensors read_safetensors(const std::string& path) {
  if (is_stream(path)) throw Error("safetensors are read from a file, and " + called(path) + " is a pipe");
  const std::string text = read_start(path, kRecognisedBytes);
  const FileKind kind = recognise(text, path);
  if (kind == FileKind::zip || kind == FileKind::pickle || kind == FileKind::gguf || kind == FileKind::hdf5)
    throw Error(path + " is " + std::string(describe(kind)) + ", and safetensors are expected")
        .help("model.save_pretrained(FOLDER) writes them");
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' && path.ends_with(".json") ? read_index(path)
                                                                                     : read_one(path);
}

}  // namespace gpuplan
