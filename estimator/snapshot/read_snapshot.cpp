// A pickle machine that makes numbers, words, lists, tuples and dictionaries (docs.python.org/3/library/pickletools,
// the protocols 2 to 5), and knows no operation that imports, calls or builds an object.
#include <algorithm>
#include <optional>
#include <string>

#include "estimator/snapshot/snapshot_tables.h"

namespace gpuplan {
namespace {

constexpr std::size_t kDeepest = 200'000;  // values that wait: a batch of Python's pickler is of 1,000
constexpr char kProtocol = '\x80';

class PickleReader {
 public:
  PickleReader(const std::string& name, const ReadSnapshotBytes& read)
      : name_(name), input_(name, read), tables_(input_) {}

  Snapshot read() {
    if (input_.byte() != static_cast<std::uint8_t>(kProtocol)) input_.fail("no pickle");
    const std::uint8_t protocol = input_.byte();
    if (protocol < 2 || protocol > 5) input_.fail("a pickle of protocol " + std::to_string(protocol));
    while (step(input_.byte())) {
    }
    return tables_.take(name_);
  }

 private:
  struct List {
    PickleKind of = PickleKind::none;  // none: empty
    std::uint32_t first = 0, count = 0;
    std::vector<std::uint32_t> frames;
    std::optional<PickleValue> closed;
  };
  struct Kept {
    std::uint32_t number = 0;
    PickleKind kind = PickleKind::other;
  };

  // False at the end.
  bool step(std::uint8_t operation) {
    switch (operation) {
      case '.': return false;                                                                  // STOP
      case 0x95: input_.skip(8); break;                                                        // FRAME
      case '(': push_mark(); break;                                                            // MARK
      case 'N': push({.kind = PickleKind::none}); break;                                       // NONE
      case 0x88: push({.number = 1, .kind = PickleKind::boolean}); break;                      // NEWTRUE
      case 0x89: push({.number = 0, .kind = PickleKind::boolean}); break;                      // NEWFALSE
      case 'K': push_integer(static_cast<std::int64_t>(input_.number(1))); break;              // BININT1
      case 'M': push_integer(static_cast<std::int64_t>(input_.number(2))); break;              // BININT2
      case 'J': push_integer(input_.signed_number(4)); break;                                  // BININT
      case 0x8a: push_integer(long_number(static_cast<std::uint64_t>(input_.byte()))); break;  // LONG1
      case 0x8b: push_integer(long_number(input_.number(4))); break;                           // LONG4
      case 'G': push_real(); break;                                                            // BINFLOAT
      case 0x8c: push_word(input_.number(1)); break;                                           // SHORT_BINUNICODE
      case 'X': push_word(input_.number(4)); break;                                            // BINUNICODE
      case 0x8d: push_word(input_.number(8)); break;                                           // BINUNICODE8
      case ']': push_list(); break;                                                            // EMPTY_LIST
      case '}': push({.kind = PickleKind::open_dictionary}); break;                            // EMPTY_DICT
      case ')': push({.kind = PickleKind::other}); break;                                      // EMPTY_TUPLE
      case 't': make_tuple(stack_.size() - marked()), marks_.pop_back(); break;                // TUPLE
      case 0x85: make_tuple(1); break;                                                         // TUPLE1
      case 0x86: make_tuple(2); break;                                                         // TUPLE2
      case 0x87: make_tuple(3); break;                                                         // TUPLE3
      case 'a': append(stack_.size() - 1); break;                                              // APPEND
      case 'e': append(marked()), marks_.pop_back(); break;                                    // APPENDS
      case 's': set(stack_.size() - 2); break;                                                 // SETITEM
      case 'u': set(marked()), marks_.pop_back(); break;                                       // SETITEMS
      case 0x94: keep(kept_.size()); break;                                                    // MEMOIZE
      case 'q': keep(input_.number(1)); break;                                                 // BINPUT
      case 'r': keep(input_.number(4)); break;                                                 // LONG_BINPUT
      case 'h': get(input_.number(1)); break;                                                  // BINGET
      case 'j': get(input_.number(4)); break;                                                  // LONG_BINGET
      default: refuse(operation);
    }
    return true;
  }

  [[noreturn]] void refuse(std::uint8_t operation) const {
    constexpr std::string_view kRuns = "cioRbPQ\x81\x82\x83\x84\x92\x93\x97";  // GLOBAL, REDUCE, BUILD and their like
    if (kRuns.find(static_cast<char>(operation)) != kRuns.npos)
      input_.fail("it asks Python to import or to call something, as a checkpoint does and no snapshot: refused");
    input_.fail("the operation " + std::to_string(operation) + ", which no snapshot has");
  }

  void push(const PickleValue& value) {
    if (stack_.size() == kDeepest) input_.fail("more values at once than a snapshot has");
    stack_.push_back(value);
  }
  void push_mark() {
    if (marks_.size() == kDeepest) input_.fail("more marks at once than a snapshot has");
    marks_.push_back(stack_.size());
  }
  void push_real() {
    input_.skip(8);
    push({.kind = PickleKind::real});
  }
  void push_integer(std::int64_t number) { push({.number = number, .kind = PickleKind::integer}); }
  void push_word(std::uint64_t bytes) { push({.number = tables_.word(input_.word(bytes)), .kind = PickleKind::word}); }
  std::int64_t long_number(std::uint64_t bytes) {
    if (bytes > 8) input_.fail("a number of " + std::to_string(bytes) + " bytes");
    return input_.signed_number(static_cast<int>(bytes));
  }

  void push_list() {
    std::size_t number = lists_.size();
    if (spare_.empty()) {
      lists_.emplace_back();
    } else {
      number = spare_.back();
      spare_.pop_back();
    }
    push({.number = static_cast<std::int64_t>(number), .kind = PickleKind::open_list});
  }

  // Where the values after the last mark begin.
  std::size_t marked() const {
    if (marks_.empty()) input_.fail("an end without a beginning");
    return marks_.back();
  }
  // The values from `begin` on are of what lies before them.
  PickleValue& owner(std::size_t begin, PickleKind kind) {
    if (begin == 0 || begin > stack_.size() || stack_[begin - 1].kind != kind)
      input_.fail("an item of what is no list or dictionary");
    return stack_[begin - 1];
  }

  // What a list has become when it is complete: used for the first time, or again before that.
  const PickleValue& complete(List& list) {
    if (list.closed) return *list.closed;
    PickleValue made{.kind = PickleKind::empty_list};
    if (list.of == PickleKind::frame)
      made = {.number = tables_.stack(list.frames), .kind = PickleKind::stack};
    else if (list.of != PickleKind::none)
      made = tables_.list(list.of, list.first, list.count);
    return list.closed.emplace(made);
  }
  // What is used, of what may still be open.
  PickleValue closed(const PickleValue& value) {
    PickleValue made = value;
    if (value.kind == PickleKind::open_dictionary) {
      made = {.kind = PickleKind::other};
    } else if (value.kind == PickleKind::open_list) {
      List& list = lists_[static_cast<std::size_t>(value.number)];
      made = complete(list);
      list.of = PickleKind::none;
      list.count = 0;
      list.frames.clear();
      list.closed.reset();
      spare_.push_back(static_cast<std::size_t>(value.number));
    } else {
      return made;
    }
    became(value, made);
    return made;
  }
  void became(const PickleValue& value, const PickleValue& made) {
    if (value.kept_as != kNotKept) kept_[value.kept_as] = {static_cast<std::uint32_t>(made.number), made.kind};
  }

  void append(std::size_t begin) {
    const PickleValue list = owner(begin, PickleKind::open_list);
    for (std::size_t i = begin; i < stack_.size(); ++i) {
      const PickleValue item = closed(stack_[i]);  // which may move lists_
      add(lists_[static_cast<std::size_t>(list.number)], item);
    }
    stack_.resize(begin);
  }
  void add(List& list, const PickleValue& added) {
    if (list.closed) input_.fail("something holds itself");
    // A device without a history.
    const PickleValue item = added.kind == PickleKind::empty_list ? tables_.list(PickleKind::event, 0, 0) : added;
    const bool is_numbered = SnapshotTables::has_entries(item.kind);
    const PickleKind kind = is_numbered || item.kind == PickleKind::frame ? item.kind : PickleKind::other;
    if (list.of == PickleKind::none) list.of = kind, list.first = static_cast<std::uint32_t>(item.number);
    if (list.of != kind) input_.fail("a list of several kinds of things");
    if (kind == PickleKind::frame) return list.frames.push_back(static_cast<std::uint32_t>(item.number));
    if (is_numbered && item.number != std::int64_t{list.first} + list.count) input_.fail("something is in two lists");
    ++list.count;
  }

  void set(std::size_t begin) {
    PickleValue& dictionary = owner(begin, PickleKind::open_dictionary);
    const std::size_t values = stack_.size() - begin;
    if (values % 2 != 0 || values == 0) input_.fail("a dictionary with a key and no value");
    for (std::size_t i = begin; i < stack_.size(); ++i) stack_[i] = closed(stack_[i]);
    const PickleValue made = tables_.dictionary(std::span(stack_).subspan(begin));
    became(dictionary, made);
    dictionary = made;
    stack_.resize(begin);
  }

  // Of numbers only, it tells whether one of them is not 0: a private pool's.
  void make_tuple(std::size_t items) {
    if (items > stack_.size()) input_.fail("a tuple of more than there is");
    bool any = false;
    for (std::size_t i = stack_.size() - items; i < stack_.size(); ++i) any = any || closed(stack_[i]).number != 0;
    stack_.resize(stack_.size() - items);
    push({.number = any ? 1 : 0, .kind = PickleKind::other});
  }

  void keep(std::uint64_t as) {
    if (stack_.empty()) input_.fail("nothing to remember");
    if (as > input_.position()) input_.fail("more to remember than the file has bytes");
    if (as >= kept_.size()) kept_.resize(as + 1);
    PickleValue& value = stack_.back();
    if (value.kind == PickleKind::integer) input_.fail("a number is remembered");
    const bool open = value.kind == PickleKind::open_list || value.kind == PickleKind::open_dictionary;
    if (open) value.kept_as = static_cast<std::uint32_t>(as);
    kept_[as] = {static_cast<std::uint32_t>(value.number), value.kind};
  }
  void get(std::uint64_t as) {
    if (as >= kept_.size()) input_.fail("nothing was remembered as " + std::to_string(as));
    const Kept& kept = kept_[as];
    PickleValue value{.number = kept.number, .kind = kept.kind};
    if (kept.kind == PickleKind::open_list) value = complete(lists_[kept.number]);
    if (kept.kind == PickleKind::open_dictionary) value = {.kind = PickleKind::other};
    push(value);
  }

  std::string name_;
  PickleInput input_;
  SnapshotTables tables_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Kept> kept_;
  std::vector<List> lists_;
  std::vector<std::size_t> spare_;  // of lists_
};

}  // namespace

bool is_pickle_text(std::string_view start) {
  return start.size() >= 2 && start[0] == kProtocol && start[1] >= 2 && start[1] <= 5;
}

Snapshot read_snapshot(const std::string& name, const ReadSnapshotBytes& read) {
  return PickleReader(name, read).read();
}

}  // namespace gpuplan
