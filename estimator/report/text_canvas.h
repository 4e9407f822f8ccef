// Lines finer than characters, for drawings in a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gpuplan {

/// Dots of Braille, four high and two wide a character, or without Unicode three heights of a dash.
class TextCanvas {
 public:
  TextCanvas(int columns, int rows, bool unicode)
      : columns_(columns), rows_(rows), unicode_(unicode), dots_(static_cast<std::size_t>(columns * rows), 0) {}

  int dot_columns() const { return columns_ * (unicode_ ? 2 : 1); }
  int dot_rows() const { return rows_ * (unicode_ ? 4 : 3); }
  void dot(int x, int y) {
    if (x < 0 || y < 0 || x >= dot_columns() || y >= dot_rows()) return;
    // U+2800: dots 1 2 3 7 in the left column from the top, 4 5 6 8 in the right one.
    static constexpr unsigned char kBraille[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
    if (unicode_)
      at(x / 2, y / 4) |= kBraille[x % 2][y % 4];
    else
      at(x, y / 3) = static_cast<unsigned char>(1 + y % 3);
  }
  std::string cell(int column, int row) const {
    const unsigned char dots = dots_[static_cast<std::size_t>(row * columns_ + column)];
    if (dots == 0) return " ";
    if (!unicode_) return std::string(1, "'-_"[dots - 1]);
    const unsigned code = 0x2800U + dots;
    return {static_cast<char>(0xE0U | code >> 12U), static_cast<char>(0x80U | (code >> 6U & 0x3FU)),
            static_cast<char>(0x80U | (code & 0x3FU))};
  }

 private:
  unsigned char& at(int column, int row) { return dots_[static_cast<std::size_t>(row * columns_ + column)]; }

  int columns_, rows_;
  bool unicode_;
  std::vector<unsigned char> dots_;
};

}  // namespace gpuplan
