//! Improved suggestions in errors of the argument parser.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Returns the error with better suggestions.
pub(crate) fn on(mut error: Error) -> Error {
    let conflict = error.kind() == ErrorKind::ArgumentConflict;
    if conflict && let Some(ContextValue::String(experiment)) = error.get(ContextKind::InvalidSubcommand) {
        let tip = format!("options go after the experiment's name: wirepath assess {experiment} [OPTIONS]");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    // Suggestions about values that begin with hyphens do not help with an unknown option.
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested)
    {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::Arguments;

    fn said(words: &[&str]) -> String {
        let error = Arguments::try_parse_from(words).map(drop).unwrap_err();
        on(error).to_string()
    }

    #[test]
    fn where_options_of_an_experiment_stand_is_said() {
        let said = said(&["wirepath", "assess", "--quick", "relay"]);
        assert!(said.contains("tip: ") && said.contains("wirepath assess relay [OPTIONS]"), "{said}");
    }

    #[test]
    fn an_option_that_there_is_not_is_not_taken_for_a_value() {
        let port = said(&["wirepath", "serve", "--port", "80"]);
        assert!(port.contains("--port") && !port.contains("-- --port"), "{port}");
        let near = said(&["wirepath", "serve", "--hot-memry", "1GiB"]);
        assert!(near.contains("'--hot-memory'"), "{near}");
    }
}
