//! The functions of Sprig (`github.com/Masterminds/sprig`), and Helm's for YAML. One file per group, with its rows.

mod cast;
mod checksum;
mod date;
mod decimal;
mod default;
mod dict;
mod encoding;
mod json;
mod json_writer;
mod letter_case;
mod list;
mod math;
mod merge;
mod path;
mod random;
mod reflection;
mod regular_expression;
mod semver;
mod text;
mod unavailable;
mod url;
mod wrap;
mod yaml;
mod yaml_writer;

use super::Row;

pub(super) fn rows() -> Vec<Row> {
    let groups = [
        checksum::ROWS,
        date::ROWS,
        default::ROWS,
        dict::ROWS,
        encoding::ROWS,
        json::ROWS,
        letter_case::ROWS,
        list::ROWS,
        math::ROWS,
        merge::ROWS,
        path::ROWS,
        random::ROWS,
        reflection::ROWS,
        regular_expression::ROWS,
        semver::ROWS,
        text::ROWS,
        unavailable::ROWS,
        url::ROWS,
        wrap::ROWS,
        yaml::ROWS,
    ];
    groups.into_iter().flatten().copied().collect()
}
