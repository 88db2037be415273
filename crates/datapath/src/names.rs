//! Names of data paths.

/// Declares an enum of paths with the name of each for options, output and documentation.
macro_rules! paths {
    ($(#[$about:meta])* $Path:ident { $($(#[$variant:meta])* $Variant:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Path { $($(#[$variant])* $Variant,)* }

        impl $Path {
            /// All paths, in this order.
            pub const ALL: [$Path; [$($name),*].len()] = [$($Path::$Variant),*];

            /// The name used in options, output and documentation.
            pub fn name(self) -> &'static str {
                match self { $($Path::$Variant => $name,)* }
            }
        }

        impl std::fmt::Display for $Path {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl std::str::FromStr for $Path {
            type Err = $crate::names::UnknownPath;

            fn from_str(name: &str) -> Result<$Path, Self::Err> {
                let unknown = || $crate::names::UnknownPath(name.to_owned(), [$($name),*].join(", "));
                $Path::ALL.into_iter().find(|path| path.name() == name).ok_or_else(unknown)
            }
        }
    };
}
pub(crate) use paths;

/// Unknown name of a path, and the known ones.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown data path {0:?}: expected {1}")]
pub struct UnknownPath(pub(crate) String, pub(crate) String);
