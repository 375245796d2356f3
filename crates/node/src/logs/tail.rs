//! Where the last lines of a file begin.

use std::io::{self, Read, Seek, SeekFrom};

/// Bytes that are read at once, from the end.
const BLOCK_BYTES: u64 = 8192;

/// The position of the last `lines` lines of a file. A last line without its end counts as a line.
pub(super) fn find_start(file: &mut (impl Read + Seek), lines: u64) -> io::Result<u64> {
    let end = file.seek(SeekFrom::End(0))?;
    if lines == 0 || end == 0 {
        return Ok(end);
    }
    let (mut position, mut found) = (end, 0);
    let mut block = Vec::new();
    while position > 0 {
        let count = position.min(BLOCK_BYTES);
        position -= count;
        file.seek(SeekFrom::Start(position))?;
        block.resize(count as usize, 0);
        file.read_exact(&mut block)?;
        for at in (0..block.len()).rev().filter(|at| block[*at] == b'\n') {
            let line_end = position + at as u64 + 1;
            // The end of the file ends the last line and begins none.
            found += u64::from(line_end != end);
            if found == lines {
                return Ok(line_end);
            }
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[track_caller]
    fn check(text: &str, lines: u64, expected: &str) {
        let start = find_start(&mut Cursor::new(text), lines).unwrap();
        assert_eq!(&text[start as usize..], expected);
    }

    #[test]
    fn the_last_lines_are_found() {
        check("a\nb\nc\n", 0, "");
        check("a\nb\nc\n", 2, "b\nc\n");
        check("a\nb\nc", 2, "b\nc");
        check("a\nb\n", 9, "a\nb\n");
        check("", 3, "");
        let long = format!("{}\nlast\n", "x".repeat(20_000));
        check(&long, 1, "last\n");
        check(&long, 2, &long);
    }
}
