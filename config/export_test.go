package config

// VariableNames lists the variables for tests.
func VariableNames() []string {
	var names []string
	for _, v := range variables() {
		names = append(names, v.name)
	}
	return names
}

// Defaults maps each variable to its default for tests.
func Defaults() map[string]string {
	defaults := map[string]string{}
	for _, v := range variables() {
		defaults[v.name] = v.def
	}
	return defaults
}
