//! Text in columns, for terminals and for Markdown.

/// Between two columns on a terminal.
pub const GAP: &str = "  ";

/// At which side of a column its cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Characters; a cell may have more, which moves the rest of its line.
    pub width: usize,
    /// Where its cells stand.
    pub flush: Flush,
}

impl Column {
    /// Of this width, for words.
    pub fn left(width: usize) -> Column {
        let flush = Flush::Left;
        Column { width, flush }
    }

    /// Of this width, for numbers.
    pub fn right(width: usize) -> Column {
        let flush = Flush::Right;
        Column { width, flush }
    }

    /// The column that is as wide as the widest of these cells.
    pub fn fitting<'a>(cells: impl Iterator<Item = &'a str>, flush: Flush) -> Column {
        let width = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        Column { width, flush }
    }

    /// A cell with the blanks that it lacks.
    pub fn cell(&self, text: &str) -> String {
        let width = self.width;
        match self.flush {
            Flush::Left => format!("{text:<width$}"),
            Flush::Right => format!("{text:>width$}"),
        }
    }
}

/// The columns that are as wide as the widest cells of these rows, which may be of different lengths.
pub fn fitting(rows: &[Vec<String>], flush: impl Fn(usize) -> Flush) -> Vec<Column> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    (0..count)
        .map(|place| {
            let cells = rows.iter().filter_map(|row| row.get(place));
            Column::fitting(cells.map(String::as_str), flush(place))
        })
        .collect()
}

/// The rows as lines of a terminal, without blanks at their ends. Control characters, which a terminal would obey, become blanks.
pub fn lines(rows: &[Vec<String>], flush: impl Fn(usize) -> Flush) -> Vec<String> {
    let columns = fitting(rows, flush);
    let line = |row: &Vec<String>| {
        let cells = (columns.iter().zip(row)).map(|(column, cell)| column.cell(cell));
        let line = cells.collect::<Vec<String>>().join(GAP);
        let line = line.replace(char::is_control, " ");
        line.trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cells() {
        let rows = [
            ["NAME", "COUNT", "NOTE"].map(str::to_string).to_vec(),
            ["größer", "7", ""].map(str::to_string).to_vec(),
            ["a\u{1b}", "1234567"].map(str::to_string).to_vec(),
        ];
        let flush = |place| match place {
            1 => Flush::Right,
            _ => Flush::Left,
        };
        assert_eq!(
            lines(&rows, flush),
            [
                "NAME      COUNT  NOTE",
                "größer        7",
                "a       1234567"
            ]
        );
        assert_eq!(lines(&[], flush), [""; 0]);
    }

    #[test]
    fn a_cell_that_is_too_wide_stays_whole() {
        assert_eq!(Column::left(2).cell("abc"), "abc");
        assert_eq!(Column::right(4).cell("é"), "   é");
    }
}
