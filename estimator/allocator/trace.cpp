#include "estimator/allocator/trace.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <new>
#include <string_view>
#include <unordered_map>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

constexpr std::array<const char*, 7> kActionNames = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap"};
constexpr std::size_t kMaxLineBytes = 4096;

std::uint64_t key_of(TracePlace place) {
  // Segments below 2^24 and offsets below 2^40 - both checked where they are read - share 64 bits.
  return static_cast<std::uint64_t>(place.segment) << 40 | static_cast<std::uint64_t>(place.offset);
}

// Turns lines into events. Fed line by line so that no whole file is ever held.
class TraceParser {
 public:
  explicit TraceParser(std::string name) { trace_.name = std::move(name); }

  void add_line(std::string_view line) {
    ++line_number_;
    line_ = line;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty() || line.front() == '#') return;
    if (line.front() == '=') return add_phase(line);
    if (trace_.events.size() == kMaxTraceEvents) fail(0, 1, "a trace of more than 16,000,000 events");
    add_event(line);
  }

  [[noreturn]] void fail(std::size_t column, std::size_t length, const std::string& message) const {
    // A Source of which only this line has text: the others are gone.
    Source source{trace_.name, std::string(static_cast<std::size_t>(std::max(line_number_, 1)) - 1, '\n')};
    source.text += line_;
    throw Error(message).at({&source, std::max(line_number_, 1), static_cast<int>(column) + 1,
                             static_cast<int>(std::max<std::size_t>(length, 1))});
  }

  Trace take() { return std::move(trace_); }

 private:
  void add_phase(std::string_view line) {
    if (line.size() < 3 || line[1] != ' ') fail(0, line.size(), "a phase is written \"= name\"");
    trace_.phases.push_back({std::string(line.substr(2)), trace_.events.size()});
  }

  void add_event(std::string_view line) {
    const std::size_t first = line.find('\t');
    const std::size_t second = first == line.npos ? first : line.find('\t', first + 1);
    if (second == line.npos) fail(0, line.size(), "an event is ACTION, SEGMENT+OFFSET and BYTES with tabs between");
    const std::size_t plus = line.substr(0, second).find('+', first + 1);
    if (plus == line.npos) fail(first + 1, second - first - 1, "expected SEGMENT+OFFSET");

    TraceEvent event;
    event.line = line_number_;
    event.action = action(line.substr(0, first));
    event.place.segment = static_cast<std::int32_t>(number(line, first + 1, plus, (1 << 24) - 1));
    event.place.offset = number(line, plus + 1, second, (std::int64_t{1} << 40) - 1);
    event.bytes = number(line, second + 1, line.size(), (std::int64_t{1} << 56) - 1);
    number_tensor(event, first + 1, second - first - 1);
    trace_.events.push_back(event);
  }

  TraceAction action(std::string_view word) const {
    const auto found = std::find(kActionNames.begin(), kActionNames.end(), word);
    if (found == kActionNames.end()) {
      const std::vector<std::string> names(kActionNames.begin(), kActionNames.end());
      fail(0, word.size(), "unknown action \"" + std::string(word.substr(0, 40)) + "\"" + did_you_mean(word, names));
    }
    return static_cast<TraceAction>(found - kActionNames.begin());
  }

  std::int64_t number(std::string_view line, std::size_t from, std::size_t to, std::int64_t most) const {
    std::int64_t value = 0;
    const char* const end = line.data() + to;
    const auto result = std::from_chars(line.data() + from, end, value);
    if (result.ec != std::errc{} || result.ptr != end || value < 0)
      fail(from, to - from, "expected a whole number that is not negative");
    if (value > most) fail(from, to - from, "no more than " + std::to_string(most) + " is possible here");
    return value;
  }

  void number_tensor(TraceEvent& event, std::size_t column, std::size_t length) {
    const auto there = [&] { return live_.find(key_of(event.place)); };
    if (event.action == TraceAction::alloc) {
      if (event.bytes == 0) fail(column + length + 1, 1, "PyTorch allocates nothing for 0 bytes");
      event.tensor = trace_.tensor_count++;
      if (!live_.emplace(key_of(event.place), Live{event.tensor, event.bytes, false}).second)
        fail(column, length, "something is allocated here already");
    } else if (event.action == TraceAction::free_requested || event.action == TraceAction::free_completed) {
      const auto tensor = there();
      if (tensor == live_.end()) fail(column, length, "nothing is allocated here");
      if (tensor->second.bytes != event.bytes)
        fail(column + length + 1, 1, "what is freed here was allocated with " + std::to_string(tensor->second.bytes));
      event.tensor = tensor->second.number;
      if (event.action == TraceAction::free_completed) {
        live_.erase(tensor);
      } else {
        if (tensor->second.requested) fail(column, length, "freed twice");
        tensor->second.requested = true;
      }
    }
  }

  struct Live {
    std::uint32_t number;
    std::int64_t bytes;
    bool requested;
  };
  Trace trace_;
  std::unordered_map<std::uint64_t, Live> live_;
  std::string_view line_;
  int line_number_ = 0;
};

// Cuts what is fed into lines; a line may span two feeds.
class LineFeeder {
 public:
  explicit LineFeeder(TraceParser& parser) : parser_(parser) {}

  void feed(std::string_view bytes) {
    for (;;) {
      const std::size_t end = bytes.find('\n');
      if (partial_.size() + std::min(end, bytes.size()) > kMaxLineBytes) {
        partial_ += bytes.substr(0, 40);
        parser_.add_line("#");  // counts the line; its text says nothing
        parser_.fail(0, 1, "a line of more than " + std::to_string(kMaxLineBytes) + " bytes");
      }
      if (end == bytes.npos) break;
      if (partial_.empty()) {
        parser_.add_line(bytes.substr(0, end));
      } else {
        partial_ += bytes.substr(0, end);
        parser_.add_line(partial_);
        partial_.clear();
      }
      bytes.remove_prefix(end + 1);
    }
    partial_ += bytes;
  }
  void finish() {
    if (!partial_.empty()) parser_.add_line(partial_);
  }

 private:
  TraceParser& parser_;
  std::string partial_;
};

// Unpacks the members of a gzip stream, one behind the other, and passes on what is not packed. zlib.h says what
// inflate() returns; what follows the last member and is none is left alone, as gzip -d does.
class Unpacker {
 public:
  Unpacker(std::string name, LineFeeder& lines) : name_(std::move(name)), lines_(lines) {}
  ~Unpacker() {
    if (packed_) inflateEnd(&stream_);
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  void feed(std::string_view bytes) {
    count(bytes.size(), packed_bytes_);
    if (known_) return packed_ ? unpack(bytes) : pass_on(bytes);
    start_ += bytes;
    if (start_.size() < kMagic.size()) return;
    decide();
  }
  void finish() {
    if (!known_) decide();
    if (packed_ && !member_ended_) throw Error("cannot read " + name_ + ": the gzip stream ends early");
  }

 private:
  static constexpr std::string_view kMagic = "\x1f\x8b";

  void decide() {
    known_ = true;
    if (!start_.starts_with(kMagic)) return pass_on(start_);
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK) throw std::bad_alloc();
    packed_ = true;
    unpack(start_);
  }

  void unpack(std::string_view bytes) {
    std::array<char, 1 << 16> buffer;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      if (member_ended_) {
        if (stream_.avail_in == 0 || static_cast<char>(*stream_.next_in) != kMagic[0]) return;
        inflateReset(&stream_);
        member_ended_ = false;
      }
      stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
      stream_.avail_out = buffer.size();
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        throw Error("cannot read " + name_ + ": damaged gzip stream" +
                    (stream_.msg == nullptr ? "" : std::string(": ") + stream_.msg));
      pass_on({buffer.data(), buffer.size() - stream_.avail_out});
      member_ended_ = code == Z_STREAM_END;
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
  }

  void pass_on(std::string_view text) {
    count(text.size(), text_bytes_);
    lines_.feed(text);
  }

  void count(std::size_t bytes, std::size_t& all) const {
    all += bytes;
    if (all > kMaxHistoryBytes)
      throw Error(name_ + " is larger than " + std::to_string(kMaxHistoryBytes >> 30) + " GiB, which no trace is");
  }

  std::string name_;
  LineFeeder& lines_;
  std::string start_;
  std::size_t packed_bytes_ = 0, text_bytes_ = 0;
  z_stream stream_{};
  bool known_ = false, packed_ = false, member_ended_ = false;
};

}  // namespace

bool is_trace_event(std::string_view line) {
  const std::string_view action = line.substr(0, line.find('\t'));
  return action.size() < line.size() &&
         std::find(kActionNames.begin(), kActionNames.end(), action) != kActionNames.end();
}

const char* name_of(TraceAction action) { return kActionNames[static_cast<std::size_t>(action)]; }

Trace read_trace(const std::string& name, const ReadBytes& read) {
  TraceParser parser(name);
  LineFeeder feeder(parser);
  Unpacker unpacker(name, feeder);
  std::array<char, 1 << 16> buffer;
  while (const std::size_t got = read(buffer.data(), buffer.size())) unpacker.feed({buffer.data(), got});
  unpacker.finish();
  feeder.finish();
  return parser.take();
}

}  // namespace gpuplan
