//! A file has one subject and a function does one thing: both stay short. Tests do not count.

use crate::tidy::report::Report;
use crate::tidy::source::{Source, block_end};
use crate::tidy::tree::Tree;

const FILE_LINES_ADVISED: usize = 400;
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 60;

pub(super) fn check(tree: &Tree, report: &mut Report) {
    for source in tree.rust().filter(|source| !source.is_all_test()) {
        check_file(source, report);
        check_functions(source, report);
    }
}

fn check_file(source: &Source, report: &mut Report) {
    let lines = source.production_lines();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split it by subject");
        report.violation_of(&source.path, what);
    } else if lines > FILE_LINES_ADVISED {
        report.advice(
            &source.path,
            format!("{lines} lines, better at most {FILE_LINES_ADVISED}"),
        );
    }
}

fn check_functions(source: &Source, report: &mut Report) {
    for offset in source.production("fn") {
        let Some(body) = body(&source.code[offset..]) else {
            continue;
        };
        let lines = body
            .lines()
            .filter(|line| !line.trim().is_empty())
            .count()
            .saturating_sub(2);
        if lines > FUNCTION_LINES_MAX {
            let what = format!("a function of {lines} lines, at most {FUNCTION_LINES_MAX}: name its parts");
            report.violation(source, offset, what);
        }
    }
}

/// The block of the function that begins here, braces included; none for a declaration or a function type.
fn body(code: &str) -> Option<&str> {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth == 0 => return None,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(&code[offset..block_end(code, offset)]),
            b';' | b'=' | b'}' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::planted;

    #[track_caller]
    fn check_text(text: &str, positions: &[&str]) {
        planted::check(check, &[("crates/a/src/b.rs", text)], positions);
    }

    fn lines(count: usize) -> String {
        "    work();\n".repeat(count)
    }

    #[test]
    fn a_function_of_sixty_lines_passes_and_of_sixty_one_does_not() {
        check_text(&format!("fn a() {{\n{}}}\n", lines(60)), &[]);
        check_text(
            &format!("\nfn a(x: [u8; 2]) -> Result<(), E> {{\n{}}}\n", lines(61)),
            &["crates/a/src/b.rs:2"],
        );
    }

    #[test]
    fn comments_and_blank_lines_do_not_make_a_function_long() {
        check_text(
            &format!("fn a() {{\n{}{}}}\n", "    // why\n\n".repeat(40), lines(60)),
            &[],
        );
    }

    #[test]
    fn a_declaration_does_not_take_the_next_block() {
        let text = format!(
            "trait T {{\n    fn a(&self);\n}}\nimpl T {{\n{}}}\ntype F = fn(u8);\n",
            "    const A: u8 = 1;\n".repeat(90)
        );
        check_text(&text, &[]);
    }

    #[test]
    fn a_file_over_the_limit_is_found() {
        check_text(&"const A: u8 = 1;\n".repeat(601), &["crates/a/src/b.rs"]);
    }

    #[test]
    fn a_file_over_the_advised_size_gets_advice_and_passes() {
        let text = "const A: u8 = 1;\n".repeat(401);
        let report = planted::report(check, &[("crates/a/src/b.rs", &text)]);
        assert_eq!(report.violations(), 0);
        assert_eq!(report.lines().count(), 1);
    }

    #[test]
    fn tests_do_not_count() {
        check_text(
            &format!(
                "fn a() {{}}\n#[cfg(test)]\nmod tests {{\nfn a() {{\n{}}}\n}}\n",
                lines(700)
            ),
            &[],
        );
    }
}
