//! Folding of long scalars over several lines, at the same positions as kube-apiserver: the first single space after a
//! column.

/// A line is folded at the first space after this column.
const WIDTH: usize = 80;

/// Writer of one scalar at the end of the output.
#[derive(Debug)]
pub(super) struct ScalarWriter<'a> {
    out: &'a mut String,
    column: usize,
    /// Indentation of the continuation lines; `None` if the scalar must stay on one line, as a key.
    indent: Option<usize>,
}

impl<'a> ScalarWriter<'a> {
    /// For a scalar that stays on its line.
    pub(super) fn single_line(out: &'a mut String) -> Self {
        Self {
            out,
            column: 0,
            indent: None,
        }
    }

    /// For a scalar that may continue on lines with this indentation.
    pub(super) fn folded(indent: usize, out: &'a mut String) -> Self {
        let line = out.rsplit('\n').next().unwrap_or_default();
        Self {
            column: line.chars().count(),
            out,
            indent: Some(indent),
        }
    }

    pub(super) fn plain(&mut self, text: &str) {
        self.fold(text, Self::push);
    }

    pub(super) fn single_quoted(&mut self, text: &str) {
        self.push('\'');
        self.fold(text, |line, letter| {
            if letter == '\'' {
                line.push('\'');
            }
            line.push(letter);
        });
        self.push('\'');
    }

    /// `escape` returns the escape of a character that cannot be written as it is.
    pub(super) fn double_quoted(&mut self, text: &str, escape: impl Fn(char) -> Option<String>) {
        self.push('"');
        self.fold(text, |line, letter| match escape(letter) {
            Some(escaped) => escaped.chars().for_each(|letter| line.push(letter)),
            None => line.push(letter),
        });
        self.push('"');
    }

    /// Writes character by character; a space where the line is long enough becomes a line break. A space next to another
    /// one, or at either end of the text, stays, since the parser would drop it.
    fn fold(&mut self, text: &str, write: impl Fn(&mut Self, char)) {
        let mut before = None;
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let next = letters.peek().copied();
            let single = before.is_some_and(|before| before != ' ') && next.is_some_and(|next| next != ' ');
            match self
                .indent
                .filter(|_| letter == ' ' && single && self.column > WIDTH)
            {
                Some(indent) => self.next_line(indent),
                None => write(self, letter),
            }
            before = Some(letter);
        }
    }

    fn next_line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
    }

    fn push(&mut self, letter: char) {
        self.out.push(letter);
        self.column += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, before: &str, write: impl Fn(&mut ScalarWriter<'_>, &str)) -> String {
        let mut out = before.to_owned();
        write(&mut ScalarWriter::folded(2, &mut out), text);
        out
    }

    #[test]
    fn a_line_is_broken_at_the_first_single_space_behind_its_width() {
        let (long, short) = ("a".repeat(81), "b".repeat(10));
        let plain = |text: &str| written(text, "", |line, text| line.plain(text));
        assert_eq!(
            plain(&format!("{long} {short} c")),
            format!("{long}\n  {short} c")
        );
        assert_eq!(plain(&format!("{long}  {short}")), format!("{long}  {short}"));
        let exact = "a".repeat(80);
        assert_eq!(plain(&format!("{exact} {short}")), format!("{exact} {short}"));
        let quoted = |text: &str| written(text, "", |line, text| line.single_quoted(text));
        assert_eq!(
            quoted(&format!("{exact} {short}")),
            format!("'{exact}\n  {short}'")
        );
        assert_eq!(quoted(&format!("{long} ")), format!("'{long} '"));
        let after = written(&format!("{} x", "a".repeat(70)), "message: xyz", |line, text| {
            line.plain(text)
        });
        assert_eq!(after, format!("message: xyz{}\n  x", "a".repeat(70)));
    }

    #[test]
    fn a_key_is_never_broken() {
        let mut out = String::new();
        let text = format!("{} b", "a".repeat(100));
        ScalarWriter::single_line(&mut out).plain(&text);
        assert_eq!(out, text);
    }
}
