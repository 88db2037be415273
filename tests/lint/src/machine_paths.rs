//! No file names a path that exists on one machine only.

use crate::finding::Finding;
use crate::tree::Tree;

/// Folders of some developer's machine. Spelled in two parts, so that this file passes its own rule.
const FOLDERS: &[(&str, &str)] = &[("/ro", "ot/"), ("/wo", "rk/"), ("/ho", "me/"), ("/Us", "ers/")];

/// Finds absolute paths below those folders in any text file.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts().flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(found) =
            FOLDERS.iter().find_map(|(head, tail)| machine_path(line, &format!("{head}{tail}")))
        {
            let place = format!("{path}:{}", index + 1);
            let remedy = "name it relative to the project, or by a variable";
            findings.push(Finding::new(place, format!("names the machine's path {found}"), remedy));
        }
    }
    findings
}

/// The path that begins with `folder`, if it is absolute: `tests/root/x` and `http://host/home/x` are none.
fn machine_path<'a>(line: &'a str, folder: &str) -> Option<&'a str> {
    let starts = line.match_indices(folder).map(|(start, _)| start);
    let is_path_part = |character: char| character.is_alphanumeric() || "._-/$)}~*".contains(character);
    let absolute = |start: &usize| !line[..*start].ends_with(is_path_part);
    let is_end = |character: char| character.is_whitespace() || "\"'`),;:".contains(character);
    starts.filter(absolute).map(|start| line[start..].split(is_end).next().unwrap_or_default()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        check(&Tree::from([("docs/a.md", text)])).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn machine_paths_are_found() {
        let folder = ["/ho", "me/anna"].concat();
        let text = format!("fine\nsee `{folder}/notes`\nFILE={folder}/x\n");
        assert_eq!(places(&text), ["docs/a.md:2", "docs/a.md:3"]);
    }

    #[test]
    fn relative_paths_and_addresses_are_not() {
        let tail = ["/ho", "me/x"].concat();
        assert_eq!(places(&format!("tests{tail}\nhttp://host{tail}\n$DIR{tail}\n/srv/media\n")), [""; 0]);
    }
}
