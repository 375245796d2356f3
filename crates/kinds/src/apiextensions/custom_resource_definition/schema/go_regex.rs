//! Errors of Go's regexp parser, which decide whether Kubernetes accepts a pattern.
//!
//! Upstream: Go's `regexp/syntax/parse.go`. The parser here only looks for errors.

use setpoint_schema::custom::Pattern;

/// The most repetitions that Go accepts.
const MAX_REPEAT: u32 = 1000;

/// The error of Go's parser for a pattern, if there is one.
pub(super) fn parse_error(pattern: &str) -> Option<String> {
    let mut parser = Parser {
        pattern,
        at: 0,
        depth: 0,
        has_operand: false,
        last_repeat: None,
    };
    parser.parse().err()
}

struct Parser<'a> {
    pattern: &'a str,
    at: usize,
    /// The number of open parentheses.
    depth: usize,
    /// Whether there is something that a repetition can repeat.
    has_operand: bool,
    /// Where the repetition begins that ends here.
    last_repeat: Option<usize>,
}

type Outcome = Result<(), String>;

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.pattern[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn parse(&mut self) -> Outcome {
        while let Some(next) = self.rest().chars().next() {
            let start = self.at;
            let mut repeat = None;
            match next {
                '(' => self.group()?,
                ')' => {
                    self.at += 1;
                    if self.depth == 0 {
                        return Err(format!("unexpected ): `{}`", self.pattern));
                    }
                    self.depth -= 1;
                    self.has_operand = true;
                }
                '|' => {
                    self.at += 1;
                    self.has_operand = false;
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.at += 1;
                    repeat = Some(self.repeat(start)?);
                }
                '{' => match self.count()? {
                    true => repeat = Some(self.repeat(start)?),
                    false => self.literal(),
                },
                '\\' => {
                    self.escape()?;
                    self.has_operand = true;
                }
                _ => self.literal(),
            }
            self.last_repeat = repeat;
        }
        match self.depth {
            0 => Ok(()),
            _ => Err(format!("missing closing ): `{}`", self.pattern)),
        }
    }

    fn literal(&mut self) {
        self.next();
        self.has_operand = true;
    }

    /// The start of the repetition whose operator ends here.
    fn repeat(&mut self, start: usize) -> Result<usize, String> {
        self.take("?");
        let operator = &self.pattern[start..self.at];
        if !self.has_operand {
            return Err(format!("missing argument to repetition operator: `{operator}`"));
        }
        match self.last_repeat {
            Some(last) => {
                let operators = &self.pattern[last..self.at];
                Err(format!("invalid nested repetition operator: `{operators}`"))
            }
            None => Ok(start),
        }
    }

    /// Takes `{n}`, `{n,}` or `{n,m}`; anything else is literal.
    fn count(&mut self) -> Result<bool, String> {
        let Some(end) = self.rest().find('}') else {
            return Ok(false);
        };
        let text = &self.rest()[1..end];
        let (min, max) = text.split_once(',').unwrap_or((text, text));
        let is_number = |digits: &str| {
            let is_canonical = digits.len() == 1 || !digits.starts_with('0');
            !digits.is_empty() && is_canonical && digits.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(min) || !(max.is_empty() && text.contains(',') || is_number(max)) {
            return Ok(false);
        }
        let number = |digits: &str| digits.parse().unwrap_or(u32::MAX);
        let (min, max) = (number(min), if max.is_empty() { None } else { Some(number(max)) });
        if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || max < min) {
            return Err(format!("invalid repeat count: `{{{text}}}`"));
        }
        self.at += end + 1;
        Ok(true)
    }

    fn group(&mut self) -> Outcome {
        let start = self.at;
        self.at += 1;
        if !self.take("?") {
            self.open();
            return Ok(());
        }
        if self.take("P<") || self.take("<") {
            return self.named_group(start);
        }
        let (mut is_negated, mut has_flag) = (false, false);
        while let Some(next) = self.next() {
            match next {
                'i' | 'm' | 's' | 'U' => has_flag = true,
                '-' if !is_negated => (is_negated, has_flag) = (true, false),
                ':' if !is_negated || has_flag => {
                    self.open();
                    return Ok(());
                }
                // Flags for the rest of the group, which are no operand.
                ')' if !is_negated || has_flag => return Ok(()),
                _ => break,
            }
        }
        let text = &self.pattern[start..self.at];
        Err(format!("invalid or unsupported Perl syntax: `{text}`"))
    }

    fn open(&mut self) {
        self.depth += 1;
        self.has_operand = false;
    }

    fn named_group(&mut self, start: usize) -> Outcome {
        let Some(end) = self.rest().find('>') else {
            return Err(format!("invalid named capture: `{}`", &self.pattern[start..]));
        };
        let name = &self.rest()[..end];
        self.at += end + 1;
        self.open();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_word) {
            let text = &self.pattern[start..self.at];
            return Err(format!("invalid named capture: `{text}`"));
        }
        Ok(())
    }

    fn class(&mut self) -> Outcome {
        let start = self.at;
        self.at += 1;
        self.take("^");
        let mut is_first = true;
        while is_first || !self.rest().starts_with(']') {
            if self.rest().is_empty() {
                return Err(format!("missing closing ]: `{}`", &self.pattern[start..]));
            }
            is_first = false;
            self.class_item(start)?;
        }
        self.at += 1;
        self.has_operand = true;
        Ok(())
    }

    fn class_item(&mut self, class: usize) -> Outcome {
        let start = self.at;
        if self.rest().starts_with("[:")
            && let Some(end) = self.rest().find(":]")
        {
            let name = &self.rest()[2..end];
            self.at += end + 2;
            return match is_posix_class(name.trim_start_matches('^')) {
                true => Ok(()),
                false => Err(format!(
                    "invalid character class range: `{}`",
                    &self.pattern[start..self.at]
                )),
            };
        }
        let low = self.class_character(class)?;
        let is_range =
            self.rest().starts_with('-') && !self.rest().starts_with("-]") && self.rest().len() > 1;
        if let (Some(low), true) = (low, is_range) {
            self.at += 1;
            let escape = self.at;
            match self.class_character(class)? {
                None => return Err(self.invalid_escape(escape)),
                Some(high) if high < low => {
                    let text = &self.pattern[start..self.at];
                    return Err(format!("invalid character class range: `{text}`"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A character of a class; `None` for an escape that stands for several.
    fn class_character(&mut self, class: usize) -> Result<Option<char>, String> {
        match self.rest().chars().next() {
            None => Err(format!("missing closing ]: `{}`", &self.pattern[class..])),
            Some('\\') => self.escape(),
            Some(next) => {
                self.at += next.len_utf8();
                Ok(Some(next))
            }
        }
    }

    /// An escape, and the character that it stands for.
    fn escape(&mut self) -> Result<Option<char>, String> {
        let start = self.at;
        self.at += 1;
        let Some(next) = self.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let is_octal = |digit: char| ('0'..='7').contains(&digit);
        match next {
            'a' => Ok(Some('\x07')),
            'f' => Ok(Some('\x0c')),
            'n' => Ok(Some('\n')),
            'r' => Ok(Some('\r')),
            't' => Ok(Some('\t')),
            'v' => Ok(Some('\x0b')),
            'Q' => {
                let end = self.rest().find("\\E").map_or(self.rest().len(), |end| end + 2);
                self.at += end;
                Ok(None)
            }
            'p' | 'P' => self.unicode_class(start).map(|()| None),
            'A' | 'b' | 'B' | 'C' | 'z' | 'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok(None),
            'x' => self.hexadecimal(start),
            '0' => Ok(Some('\0')),
            '1'..='7' if self.rest().starts_with(is_octal) => Ok(Some(next)),
            other if other.is_ascii_punctuation() => Ok(Some(other)),
            _ => Err(self.invalid_escape(start)),
        }
    }

    fn invalid_escape(&self, start: usize) -> String {
        format!("invalid escape sequence: `{}`", &self.pattern[start..self.at])
    }

    /// `\x7F` or `\x{10FFFF}`. An error ends with the first character that is no digit.
    fn hexadecimal(&mut self, start: usize) -> Result<Option<char>, String> {
        let is_braced = self.take("{");
        let mut digits = String::new();
        while is_braced || digits.len() < 2 {
            match self.next() {
                Some('}') if is_braced && !digits.is_empty() => break,
                Some(digit) if digit.is_ascii_hexdigit() => digits.push(digit),
                Some(_) if !is_braced && digits.is_empty() => {
                    self.next();
                    return Err(self.invalid_escape(start));
                }
                _ => return Err(self.invalid_escape(start)),
            }
        }
        let code = u32::from_str_radix(&digits, 16).ok();
        match code.and_then(char::from_u32) {
            Some(character) => Ok(Some(character)),
            None => Err(self.invalid_escape(start)),
        }
    }

    fn unicode_class(&mut self, start: usize) -> Outcome {
        let name = match self.next() {
            Some('{') => {
                let end = self.rest().find('}').map(|end| self.at + end);
                let from = self.at;
                self.at = end.map_or(self.pattern.len(), |end| end + 1);
                &self.pattern[from..end.unwrap_or(self.pattern.len())]
            }
            Some(_) => &self.pattern[start + 2..self.at],
            None => "",
        };
        let name = name.trim_start_matches('^');
        match Pattern::check(&format!("\\p{{{name}}}")) {
            Ok(_) if !name.is_empty() => Ok(()),
            _ => Err(format!(
                "invalid character class range: `{}`",
                &self.pattern[start..self.at]
            )),
        }
    }
}

fn is_posix_class(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
        "upper", "word", "xdigit",
    ];
    NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: Option<&str>) {
        assert_eq!(parse_error(pattern).as_deref(), expected);
    }

    #[test]
    fn patterns_that_go_accepts_have_no_error() {
        for pattern in [
            "",
            "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            "a{2,3}?|(?i:b)(?P<name>c)",
            "a{,5}{",
            "[]a-]+[^]]",
            "\\d\\.\\x{1F}\\pL\\p{Greek}[[:alpha:]_]",
            "^*$",
            "(?i)a",
        ] {
            check(pattern, None);
        }
    }

    #[test]
    fn errors_have_the_texts_of_go() {
        check("^[", Some("missing closing ]: `[`"));
        check("(a", Some("missing closing ): `(a`"));
        check("a)", Some("unexpected ): `a)`"));
        check("a**", Some("invalid nested repetition operator: `**`"));
        check("*a", Some("missing argument to repetition operator: `*`"));
        check("a|+", Some("missing argument to repetition operator: `+`"));
        check("\\", Some("trailing backslash at end of expression: ``"));
        check("\\8", Some("invalid escape sequence: `\\8`"));
        check("[z-a]", Some("invalid character class range: `z-a`"));
        check("a{2,1}", Some("invalid repeat count: `{2,1}`"));
        check("a{1001}", Some("invalid repeat count: `{1001}`"));
        check("(?=a)", Some("invalid or unsupported Perl syntax: `(?=`"));
        check("(?P<n", Some("invalid named capture: `(?P<n`"));
        check("(?P<a b>c)", Some("invalid named capture: `(?P<a b>`"));
        check("[a-\\d]", Some("invalid escape sequence: `\\d`"));
        check("\\x{zz}", Some("invalid escape sequence: `\\x{z`"));
        check("\\p{Foo}", Some("invalid character class range: `\\p{Foo}`"));
    }
}
