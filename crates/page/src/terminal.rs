//! Output as a terminal shows it: text that a carriage return or a backspace has overwritten is gone, colours are kept, and whatever else a
//! program tells a terminal (titles, cursors, alternate screens) is left out. Pure.
//!
//! Lines are read one by one, and a sequence that is not complete ends with its line, so no output can hide what comes after it. There is no
//! screen: a program that moves the cursor up writes new lines here. Every character stands in one column, wide ones too.

use std::fmt::{self, Display};

/// The column that the cursor can be moved to beyond the end of a line: else ten bytes could become a line of any length.
const FURTHEST: usize = 200;

/// Between two tab stops.
const TAB: usize = 8;

/// The most of a sequence's parameters that is read, in characters.
const LONGEST: usize = 100;

/// Colours that are told apart: more would not all be readable on both grounds, light and dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colour {
    /// And dark greys.
    Black,
    /// And its like, as all of these.
    Red,
    /// Green.
    Green,
    /// And brown and orange.
    Yellow,
    /// Blue.
    Blue,
    /// Magenta.
    Magenta,
    /// Cyan.
    Cyan,
    /// And light greys.
    White,
}

const COLOURS: [Colour; 8] = [
    Colour::Black,
    Colour::Red,
    Colour::Green,
    Colour::Yellow,
    Colour::Blue,
    Colour::Magenta,
    Colour::Cyan,
    Colour::White,
];

/// How characters look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Of the letters.
    pub colour: Option<Colour>,
    /// Behind them.
    pub ground: Option<Colour>,
    /// Bold.
    pub bold: bool,
    /// Faint.
    pub faint: bool,
    /// Italic.
    pub italic: bool,
    /// Underlined.
    pub underlined: bool,
    /// Crossed out.
    pub crossed: bool,
    /// Letters and ground have changed places.
    pub inverse: bool,
}

/// Characters beside each other that look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Without control characters, but for tabs.
    pub text: String,
    /// How they look.
    pub style: Style,
}

impl Style {
    /// From what [`Style`] is written as; whatever is no such thing changes nothing.
    pub fn of(code: &str) -> Style {
        let mut style = Style::default();
        if code.len() <= LONGEST {
            style.select(code);
        }
        style
    }

    /// Select Graphic Rendition: `1;31`.
    fn select(&mut self, parameters: &str) {
        let mut groups = parameters.split(';');
        while let Some(group) = groups.next() {
            let parts: Vec<Option<u8>> = group.split(':').map(number).collect();
            match parts[0] {
                Some(code @ (38 | 48)) => {
                    let found = match parts.len() {
                        // 38;5;N and 38;2;R;G;B: their parameters are the next ones.
                        1 => match groups.next().and_then(number) {
                            Some(5) => groups.next().and_then(number).and_then(of_palette),
                            Some(2) => {
                                let mut next = || groups.next().and_then(number).unwrap_or(0);
                                Some(nearest([next(), next(), next()]))
                            }
                            _ => None,
                        },
                        // 38:5:N, 38:2:R:G:B, and 38:2:SPACE:R:G:B.
                        _ => match (parts[1], &parts[2..]) {
                            (Some(5), [Some(index), ..]) => of_palette(*index),
                            (Some(2), [.., Some(r), Some(g), Some(b)]) => {
                                Some(nearest([*r, *g, *b]))
                            }
                            _ => None,
                        },
                    };
                    match code {
                        38 => self.colour = found,
                        _ => self.ground = found,
                    }
                }
                Some(4) if parts.len() > 1 => self.underlined = parts[1] != Some(0),
                Some(code) => self.one(code),
                None if group.is_empty() => self.one(0),
                None => {}
            }
        }
    }

    fn one(&mut self, code: u8) {
        match code {
            0 => *self = Style::default(),
            1 => self.bold = true,
            2 => self.faint = true,
            3 => self.italic = true,
            4 | 21 => self.underlined = true,
            7 => self.inverse = true,
            9 => self.crossed = true,
            22 => (self.bold, self.faint) = (false, false),
            23 => self.italic = false,
            24 => self.underlined = false,
            27 => self.inverse = false,
            29 => self.crossed = false,
            30..=37 => self.colour = Some(COLOURS[usize::from(code - 30)]),
            39 => self.colour = None,
            40..=47 => self.ground = Some(COLOURS[usize::from(code - 40)]),
            49 => self.ground = None,
            90..=97 => self.colour = Some(COLOURS[usize::from(code - 90)]),
            100..=107 => self.ground = Some(COLOURS[usize::from(code - 100)]),
            _ => {}
        }
    }
}

/// As the parameters that make it: `1;31`, empty for plain text. What [`Style::of`] reads.
impl Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |colour: Colour| COLOURS.iter().position(|one| *one == colour);
        let colour = self.colour.and_then(place).map(|place| 30 + place);
        let ground = self.ground.and_then(place).map(|place| 40 + place);
        let is = |is: bool, code: usize| is.then_some(code);
        let codes = [
            is(self.bold, 1),
            is(self.faint, 2),
            is(self.italic, 3),
            is(self.underlined, 4),
            is(self.inverse, 7),
            is(self.crossed, 9),
            colour,
            ground,
        ];
        for (index, code) in codes.into_iter().flatten().enumerate() {
            let separator = if index > 0 { ";" } else { "" };
            write!(f, "{separator}{code}")?;
        }
        Ok(())
    }
}

fn number(text: &str) -> Option<u8> {
    text.parse().ok()
}

/// One of 256: the 16 first, a cube of 6 × 6 × 6, and greys.
fn of_palette(index: u8) -> Option<Colour> {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    Some(match index {
        0..=15 => COLOURS[usize::from(index % 8)],
        16..=231 => {
            let at = index - 16;
            nearest([level(at / 36), level(at / 6 % 6), level(at % 6)])
        }
        _ => nearest([8 + 10 * (index - 232); 3]),
    })
}

/// The colour that is most like it.
fn nearest(rgb: [u8; 3]) -> Colour {
    let (least, most) = (
        *rgb.iter().min().unwrap_or(&0),
        *rgb.iter().max().unwrap_or(&0),
    );
    if most - least < 48 {
        return if most < 128 {
            Colour::Black
        } else {
            Colour::White
        };
    }
    let middle = least + (most - least) / 2;
    let bits = rgb
        .iter()
        .enumerate()
        .map(|(bit, part)| usize::from(*part > middle) << bit);
    COLOURS[bits.sum::<usize>()]
}

/// A line, without its end, as it looks when all of it was printed. `style`: what holds at its beginning, and then at its end.
pub fn line(text: &str, style: &mut Style) -> Vec<Run> {
    let text = text.strip_suffix('\r').unwrap_or(text);
    // Nothing in it moves a cursor, as in most lines: then a tab is a tab.
    if !text.contains(|c: char| c.is_control() && c != '\t') {
        return match text {
            "" => Vec::new(),
            text => vec![Run {
                text: text.to_string(),
                style: *style,
            }],
        };
    }
    let mut cells = Cells::default();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => cells.at = 0,
            '\u{8}' => cells.at = cells.at.saturating_sub(1),
            '\t' => cells.to((cells.at / TAB + 1) * TAB),
            '\u{1b}' => escape(&mut rest, &mut cells, style),
            '\u{9b}' => control_sequence(&mut rest, &mut cells, style),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => string(&mut rest),
            c if c.is_control() => {}
            c => cells.put(c, *style),
        }
    }
    cells.runs()
}

/// The same without colours: what is searched.
pub fn plain(text: &str) -> String {
    let runs = line(text, &mut Style::default());
    runs.into_iter().map(|run| run.text).collect()
}

/// The characters of a line, and where the next one goes.
#[derive(Default)]
struct Cells {
    cells: Vec<(char, Style)>,
    at: usize,
}

impl Cells {
    fn put(&mut self, c: char, style: Style) {
        if self.at > self.cells.len() {
            self.cells.resize(self.at, (' ', Style::default()));
        }
        match self.cells.get_mut(self.at) {
            Some(cell) => *cell = (c, style),
            None => self.cells.push((c, style)),
        }
        self.at += 1;
    }

    fn to(&mut self, column: usize) {
        self.at = column.min(FURTHEST.max(self.cells.len()));
    }

    /// Erase in Line.
    fn erase(&mut self, what: usize) {
        match what {
            0 => self.cells.truncate(self.at),
            1 => {
                let end = (self.at + 1).min(self.cells.len());
                self.cells[..end].fill((' ', Style::default()));
            }
            _ => self.cells.clear(),
        }
    }

    fn runs(self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (c, style) in self.cells {
            match runs.last_mut() {
                Some(run) if run.style == style => run.text.push(c),
                _ => runs.push(Run {
                    text: c.to_string(),
                    style,
                }),
            }
        }
        runs
    }
}

/// What stands behind an escape character.
fn escape(rest: &mut std::str::Chars<'_>, cells: &mut Cells, style: &mut Style) {
    let before = rest.clone();
    match rest.next() {
        Some('[') => control_sequence(rest, cells, style),
        // Commands to the terminal with a text: titles, links, pictures.
        Some(']' | 'P' | 'X' | '^' | '_') => string(rest),
        // A character set, and its like: one more character.
        Some(' '..='/') => {
            let more = rest.clone();
            if !rest.next().is_some_and(|c| ('0'..='~').contains(&c)) {
                *rest = more;
            }
        }
        Some('0'..='~') | None => {}
        // Not a sequence: it is a character of its own.
        Some(_) => *rest = before,
    }
}

/// Up to its end, or that of the line.
fn string(rest: &mut std::str::Chars<'_>) {
    while let Some(c) = rest.next() {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                let more = rest.clone();
                if rest.next() != Some('\\') {
                    *rest = more;
                }
                return;
            }
            _ => {}
        }
    }
}

fn control_sequence(rest: &mut std::str::Chars<'_>, cells: &mut Cells, style: &mut Style) {
    let mut parameters = String::new();
    loop {
        let before = rest.clone();
        match rest.next() {
            Some(c @ ' '..='?') => {
                if parameters.len() < LONGEST {
                    parameters.push(c);
                }
            }
            Some(last @ '@'..='~') => {
                let first = parameters.split(';').next().unwrap_or_default();
                let count = |none: usize| first.parse().unwrap_or(none);
                let at = cells.at;
                match last {
                    // Those with other signs are a terminal's own.
                    'm' if parameters
                        .chars()
                        .all(|c| c.is_ascii_digit() || ";:".contains(c)) =>
                    {
                        style.select(&parameters);
                    }
                    'K' => cells.erase(count(0)),
                    'C' => cells.to(at.saturating_add(count(1).max(1))),
                    'D' => cells.to(at.saturating_sub(count(1).max(1))),
                    'G' => cells.to(count(1).max(1) - 1),
                    _ => {}
                }
                return;
            }
            None => return,
            // It was broken off.
            Some(_) => {
                *rest = before;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of a line with the codes of their styles.
    fn shown(text: &str) -> String {
        let runs = line(text, &mut Style::default());
        let runs = runs.iter().map(|run| match run.style.to_string().as_str() {
            "" => run.text.clone(),
            code => format!("<{code}>{}<>", run.text),
        });
        runs.collect()
    }

    #[test]
    fn what_was_overwritten_is_gone() {
        for (text, is) in [
            ("10 %\r20 %\r100 %", "100 %"),
            ("100 %\rdone", "done%"),
            ("100 %\r\u{1b}[Kdone", "done"),
            ("100 %\u{1b}[2K\rdone", "done"),
            ("abc\u{8}\u{8}x", "axc"),
            ("\u{8}x", "x"),
            ("dos\r", "dos"),
            ("a\tb", "a\tb"),
            ("a\tb\rc", "c       b"),
            ("abcdef\u{1b}[4DX\u{1b}[CY", "abXdYf"),
            ("abc\u{1b}[1GX", "Xbc"),
            ("abc\u{1b}[2D\u{1b}[1Kx", " xc"),
            ("gr\u{fc}n\rbl\u{e4}u", "bl\u{e4}u"),
        ] {
            assert_eq!(shown(text), is, "{text:?}");
        }
    }

    #[test]
    fn colours_are_kept_and_what_is_no_text_is_not() {
        for (text, is) in [
            ("a\u{1b}[31mred\u{1b}[0m.", "a<31>red<>."),
            ("\u{1b}[1;91;104mx\u{1b}[m", "<1;31;44>x<>"),
            (
                "\u{1b}[38;5;196mr\u{1b}[38;5;46mg\u{1b}[38;5;240mk",
                "<31>r<><32>g<><30>k<>",
            ),
            (
                "\u{1b}[38;2;250;200;30my\u{1b}[48:2::10:20:240mb",
                "<33>y<><33;44>b<>",
            ),
            ("\u{1b}[4:3mu\u{1b}[4:0mn", "<4>u<>n"),
            ("\u{1b}[7mi\u{1b}[27m\u{1b}[9mc\u{1b}[29m", "<7>i<><9>c<>"),
            ("\u{1b}[?25lx\u{1b}[2J\u{1b}[1;1Hy\u{1b}[>4;2mz", "xyz"),
            (
                "\u{1b}]0;a title\u{7}x\u{1b}]8;;http://evil/\u{1b}\\y",
                "xy",
            ),
            ("\u{1b}(Bx\u{1b}=y\u{1b}Mz", "xyz"),
            ("\u{0}a\u{7}b\u{7f}c\u{85}d", "abcd"),
            ("\u{9b}31mx", "<31>x<>"),
            // Broken off: the rest is text.
            ("\u{1b}[31\u{e4}", "\u{e4}"),
            ("\u{1b}\u{e4}", "\u{e4}"),
            ("a\u{1b}", "a"),
            ("a\u{1b}[", "a"),
            ("a\u{1b}]title", "a"),
            ("<b>&\u{1b}[1m<i>", "<b>&<1><i><>"),
        ] {
            assert_eq!(shown(text), is, "{text:?}");
        }
    }

    #[test]
    fn a_style_goes_on_in_the_next_line_and_is_read_back() {
        let mut style = Style::default();
        line("\u{1b}[1;32;45mgreen", &mut style);
        assert_eq!(line("more", &mut style)[0].style.to_string(), "1;32;45");
        for code in ["", "1;31", "1;2;3;4;7;9;36;47"] {
            assert_eq!(Style::of(code).to_string(), code);
        }
        for odd in ["x", "-1", "999", "38;5", "38", ";;", "1;"] {
            assert_eq!(Style::of(odd), Style::default(), "{odd}");
        }
        assert_eq!(Style::of(&"1;".repeat(1000)), Style::default());
    }

    #[test]
    fn a_few_bytes_do_not_become_a_long_line() {
        let far = shown("\u{1b}[99999999999999999999Cx\u{1b}[4000000000Gy\u{1b}[60000Cz");
        assert!(far.len() <= FURTHEST + 2, "{}", far.len());
        let back = shown("x\u{1b}[18446744073709551615D\u{1b}[0Dy");
        assert_eq!(back, "y");
    }
}
